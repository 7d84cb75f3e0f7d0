/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events.h - profiler events in the words of an older version of the interface. Pure.
 *
 * What an older version does not have is dropped, and what it had and NCCL no longer says is zero,
 * both as NCCL does it for the profilers that it loads itself.
 */
#ifndef ST_NEXT_EVENTS_H_
#define ST_NEXT_EVENTS_H_

#include "nccl_abi/profiler_events.h"

/* ${event}, in which NCCL speaks ${abi} (4 to 7: these start alike but for the width of the type,
 * hence ${type}), as ${version} (1 to 4) has it. */
void st_event_write(int version, int abi, int type, const struct nccl_abi_event_v7 *event,
                    struct nccl_abi_event_old *old);

/* Does ${version} (1 to 7) know this state? ${old}: its arguments for versions 1 to 3; later ones
 * take NCCL's own. */
bool st_state_write(int version, int state, const union nccl_abi_state *args,
                    struct nccl_abi_state_old *old);

#endif
