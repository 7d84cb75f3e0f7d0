/* SPDX-License-Identifier: Apache-2.0 */
/* host_id.h - which box this process is on, as NCCL sees it. */
#ifndef AR_HOST_ID_H_
#define AR_HOST_ID_H_

#include "kernels/nodes/boxes.h"

/* Return what a rank of this process tells all others. Its box is what NCCL takes for a host: the
 * text of NCCL_HOSTID, or else host name and boot id, so two containers with different host names
 * are two boxes. ${splits}: NCCL has ncclCommSplit. */
struct ar_box_card ar_box_card(bool asked, int handles, bool splits);

#endif
