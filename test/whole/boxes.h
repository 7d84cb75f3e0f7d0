/* SPDX-License-Identifier: Apache-2.0 */
/* boxes.h - see boxes.c. */
#ifndef TEST_WHOLE_BOXES_H_
#define TEST_WHOLE_BOXES_H_

/* Say which rank this thread is. */
void boxes_sit(int rank, int ranks);

#endif
