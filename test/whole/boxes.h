/* SPDX-License-Identifier: Apache-2.0 */
/* boxes.h - puts the ranks of a program on several boxes. The ranks are threads. */
#ifndef TEST_WHOLE_BOXES_H_
#define TEST_WHOLE_BOXES_H_

/* Put this thread on the box of its rank. If the environment has no BOXES, do nothing. */
void boxes_sit(int rank, int ranks);

#endif
