/* SPDX-License-Identifier: Apache-2.0 */
/*
 * board.h - shared memory in which the processes of one user on one host meet.
 *
 * A board is a POSIX shared memory object of fixed size, all zeros at first. It is used only if it
 * belongs to this user and nobody else may read it. Its memory is reserved when it is made, because
 * a later store into a full /dev/shm would end the job by SIGBUS.
 *
 * Ownership  the caller unmaps what st_board_map mapped. st_board_leave releases all that
 *            st_board_join took.
 * Threads    any; a struct st_board belongs to one thread at a time.
 */
#ifndef ST_BOARD_H_
#define ST_BOARD_H_

#include <stdbool.h>
#include <stddef.h>

/* Map the object ${name}, "/...", of ${size} bytes, and set ${at_out} to its address. With
 * ${create}, make the object, which must not exist yet; without ${create}, it must exist. Returns
 * 0, or an errno number on failure. */
int st_board_map(const char *name, size_t size, bool create, void **at_out);

struct st_board {
    void *at; /* NULL: not joined */
    size_t size;
    int fd; /* holds a lock on the object; -1 after its name was removed */
    char name[64];
};

/* Map the object ${name}; the first process makes it. An object that killed processes have left
 * behind is set to zeros again. Such an object has no locks, because every process holds a lock on
 * its object until st_board_hide, and the kernel releases the locks of killed processes. Returns
 * false on failure. */
bool st_board_join(struct st_board *board_out, const char *name, size_t size);

/* Remove the object's name, so that no other process can join. */
void st_board_hide(struct st_board *board);

/* Hide and unmap the board. */
void st_board_leave(struct st_board *board);

#endif
