/* SPDX-License-Identifier: Apache-2.0 */
#include "base/until_exit.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_bool exits;
static atomic_int readers;
static atomic_int owner; /* the process that has the memory; 0: none. A forked child has none */

static void end(void)
{
    if (atomic_load(&owner) != getpid())
        return;
    atomic_store(&exits, true);
    /* The wait has a limit, because a signal handler may call exit() in a thread that reads. */
    for (int ms = 0; ms < 2000 && atomic_load(&readers) > 0; ms++)
        usleep(1000);
}

void st_until_exit_begin(void)
{
    static atomic_flag registered = ATOMIC_FLAG_INIT;

    if (atomic_exchange(&owner, getpid()) != getpid())
        atomic_store(&readers, 0); /* a forked child has not the threads that read in its parent */
    if (!atomic_flag_test_and_set(&registered))
        atexit(end);
}

bool st_until_exit_enter(void)
{
    if (atomic_load(&exits))
        return false;
    atomic_fetch_add(&readers, 1);
    if (!atomic_load(&exits))
        return true;
    st_until_exit_leave();
    return false;
}

void st_until_exit_leave(void)
{
    atomic_fetch_sub(&readers, 1);
}
