/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machines.h - the machine that a command works for: this box, or that of --machine.
 *
 * Threads: one, st_machine_start sets a variable. Errors: a line on stderr.
 */
#ifndef ST_MACHINES_H_
#define ST_MACHINES_H_

#include "symtuner.h"

/* Find the machine that --machine ${word} means: NULL, this box; a name of nccl/model/machines.h; a
 * description, which becomes SYMTUNER_MACHINE of this process; or "list", which prints the names.
 * ${gpus_out}: how many GPUs it has, 0 if not known. -1: go on; else the exit status. */
int st_machine_start(const char *command, const char *word, struct symtuner_machine *machine_out,
                     int *gpus_out);

/* symtuner_machine_find, with a line on stderr if SYMTUNER_MACHINE cannot be read. */
int st_machine_here(struct symtuner_machine *machine_out);

#endif
