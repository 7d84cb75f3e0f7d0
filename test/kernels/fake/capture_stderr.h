/* SPDX-License-Identifier: Apache-2.0 */
/* capture_stderr.h - collects what the library prints on stderr. */
#ifndef ST_TEST_EAR_H_
#define ST_TEST_EAR_H_

void capture_stderr(void); /* begin to collect; also unsets SYMTUNER_LOG */

/* Stop, and return what was printed. The text is valid until the next call. */
const char *captured_stderr(void);

#endif
