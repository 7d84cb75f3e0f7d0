/* SPDX-License-Identifier: Apache-2.0 */
/* event_nodes.h - more of the fake CUDA (cuda.h): nodes of graphs that wait for an event or record
 * one. */
#ifndef ST_TEST_FAKE_EVENT_NODES_H_
#define ST_TEST_FAKE_EVENT_NODES_H_

#include <cuda_runtime_api.h>
#include <stdbool.h>

enum { FAKE_NODES = 64, FAKE_BEFORE = 4 };

struct fake_node {
    bool records; /* whether it records the event, rather than waits for it */
    cudaEvent_t event;
    cudaGraph_t graph;
    cudaGraphNode_t before[FAKE_BEFORE]; /* the nodes that it follows */
    size_t befores;                      /* how many there are */
};

extern struct fake_node fake_nodes[FAKE_NODES];
extern int fake_node_count; /* set it to 0 to begin a new list */

/* How many nodes the next node of a captured stream will follow; 0: one. After each launch of a
 * kernel these are other nodes. */
extern size_t fake_fronts;

/* Return an error if fake.fails is ${call}, and keep the error for cudaGetLastError. */
cudaError_t fake_named(const char *call);

#endif
