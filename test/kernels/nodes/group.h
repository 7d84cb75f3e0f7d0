/* SPDX-License-Identifier: Apache-2.0 */
/* group.h - the handles of all ranks. Each rank makes and uses its handle in a thread of its
 * own. */
#ifndef ST_TEST_NODES_GROUP_H_
#define ST_TEST_NODES_GROUP_H_

#include "kernels/nodes/nodes.h"
#include "test/kernels/nodes/net.h"

extern symtuner_ar *handle[NET_RANKS];
extern ncclResult_t created[NET_RANKS];
extern char created_error[NET_RANKS][256];
extern struct symtuner_ar_config group_config; /* the configuration of all handles; group_reset sets
                                                  it */

/* Begin a test with ${ranks} ranks, ${each} of them in a box. SYMTUNER_RULE is ${rule} for all
 * ranks; NULL: no rule. */
void group_reset(int ranks, int each, const char *rule);

void group_create(void);  /* creates the handles, collectively; does not check the results */
void group_destroy(void); /* destroys the handles, and checks that nothing is left */

/* Call ncclCommAbort on the communicator of rank ${r}. */
void group_abort(int r);

/* Check that the handles were created, and that no rank adds up box by box. All ranks must have the
 * same reason, which contains ${why}. */
void group_must_be_nccls(const char *why);

/* Return the text of symtuner_ar_describe of rank ${r}. It is valid until the next call. */
const char *group_describe(int r);

#endif
