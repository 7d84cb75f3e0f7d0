/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events.h - translates profiler events for older versions of the profiler interface. Pure.
 *
 * Members that the older version lacks are dropped. Members that NCCL no longer fills are 0. NCCL
 * does the same for profilers that it loads itself.
 */
#ifndef ST_NEXT_EVENTS_H_
#define ST_NEXT_EVENTS_H_

#include "nccl_abi/profiler_events.h"

/* Translate ${event} from version ${abi} (4 to 7), which NCCL speaks, to ${version} (1 to 4), and
 * write it to ${old}. Events of versions 4 to 7 begin with the same members. But the first member,
 * the type of the event, has 8 bits in version 4 and 64 bits in later versions. So the caller
 * passes its value as ${type}. */
void st_event_write(int version, int abi, int type, const struct nccl_abi_event_v7 *event,
                    struct nccl_abi_event_old *old);

/* Return whether ${version} (1 to 7) knows this state. If so, fill ${old} with the arguments for
 * versions 1 to 3; later versions take NCCL's own arguments. */
bool st_state_write(int version, int state, const union nccl_abi_state *args,
                    struct nccl_abi_state_old *old);

#endif
