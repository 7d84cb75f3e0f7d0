/* SPDX-License-Identifier: Apache-2.0 */
/* host_id.h - which box this process is on, as NCCL sees it. */
#ifndef AR_HOST_ID_H_
#define AR_HOST_ID_H_

#include "kernels/nodes/boxes.h"

/* Return what a rank of this process sends to all other ranks (struct ar_box_card). NCCL tells
 * boxes apart by the text of NCCL_HOSTID. If it is not set, NCCL uses the host name and the boot
 * id, so two containers with different host names are two boxes. ${asked}: SYMTUNER_AR_NODES=1.
 * ${handles}: how many handles the rank's thread makes in one call. ${splits}: NCCL has
 * ncclCommSplit. */
struct ar_box_card ar_box_card(bool asked, int handles, bool splits);

#endif
