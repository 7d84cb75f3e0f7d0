/* SPDX-License-Identifier: Apache-2.0 */
/* open_file.h - opens a file or a named pipe without waiting for the pipe's other end. */
#ifndef ST_OPEN_FILE_H_
#define ST_OPEN_FILE_H_

/* Call open(path, flags | O_CLOEXEC, 0644), but do not wait until another process opens the other
 * end of a FIFO. If no process has the other end open, a read from the FIFO returns 0 bytes, and
 * opening a FIFO for writing fails. Once both ends are open, reads and writes wait as usual, unless
 * ${flags} have O_NONBLOCK. */
int st_open_file(const char *path, int flags);

#endif
