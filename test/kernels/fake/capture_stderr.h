/* SPDX-License-Identifier: Apache-2.0 */
/* capture_stderr.h - what the library says on stderr. */
#ifndef ST_TEST_EAR_H_
#define ST_TEST_EAR_H_

void ear_open(void); /* from now on stderr is kept, and SYMTUNER_LOG unset */

/* No longer. What was said meanwhile, until the next call. */
const char *ear_heard(void);

#endif
