/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machines.h - finds the machine that a command is about: this box, or the machine that --machine
 * names or describes.
 *
 * Threads: one, because st_machine_start sets an environment variable. Errors: a line on stderr.
 */
#ifndef ST_MACHINES_H_
#define ST_MACHINES_H_

#include "symtuner.h"

/*
 * st_machine_start(command, word, machine_out, gpus_out):
 * Find the machine that --machine names. ${word} is the option's value:
 *   NULL           there is no --machine: this box
 *   a name         a machine that nccl/model/machines.h knows
 *   a description  such as "gpu=NVIDIA H200; links=nvlink"; SYMTUNER_MACHINE is set to it
 *   "list"         the command only prints the names of the machines
 * Fills ${machine_out}. ${gpus_out} becomes the number of GPUs if ${word} is a name, otherwise 0.
 * Returns -1 if the command continues, else the exit status with which it ends.
 */
int st_machine_start(const char *command, const char *word, struct symtuner_machine *machine_out,
                     int *gpus_out);

/* Call symtuner_machine_find and return its result; print a line on stderr if SYMTUNER_MACHINE is
 * set and not understood. */
int st_machine_here(struct symtuner_machine *machine_out);

#endif
