/* SPDX-License-Identifier: Apache-2.0 */
/* open_file.h - open a file that the environment names, without waiting for anybody. */
#ifndef ST_OPEN_FILE_H_
#define ST_OPEN_FILE_H_

/* open(path, flags | O_CLOEXEC, 0644), but a FIFO whose other end is not there does not hold the
 * job up: to read it is at its end, to write it is an error. Reading and writing wait as usual,
 * unless ${flags} say O_NONBLOCK. */
int st_open_file(const char *path, int flags);

#endif
