/* SPDX-License-Identifier: Apache-2.0 */
/* group.h - the handles of all ranks, each made and used by a thread of its own. */
#ifndef ST_TEST_NODES_GROUP_H_
#define ST_TEST_NODES_GROUP_H_

#include "kernels/nodes/nodes.h"
#include "test/kernels/nodes/net.h"

extern symtuner_ar *handle[NET_RANKS];
extern ncclResult_t created[NET_RANKS];
extern char created_error[NET_RANKS][256];
extern struct symtuner_ar_config group_config; /* of all handles; group_reset sets it */

/* Begin a test: ${ranks} ranks, ${each} in a box, and SYMTUNER_RULE=${rule} for all (NULL: none). */
void group_reset(int ranks, int each, const char *rule);

void group_create(void);  /* collective; does not check the outcome */
void group_destroy(void); /* and checks that nothing stays */

/* Call ncclCommAbort on the communicator of rank ${r}. */
void group_abort(int r);

/* Check that creation succeeded, and that no rank adds up box by box; the reason, the same on all
 * ranks, contains ${why}. */
void group_must_be_nccls(const char *why);

/* The text of symtuner_ar_describe of rank ${r}; valid until the next call. */
const char *group_describe(int r);

#endif
