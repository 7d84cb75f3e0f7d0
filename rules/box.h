/* SPDX-License-Identifier: Apache-2.0 */
/* box.h - the GPUs of this box, as SYMTUNER_MACHINE describes them. */
#ifndef ST_BOX_H_
#define ST_BOX_H_

#include <stdbool.h>
#include <stddef.h>

#include "symtuner.h"

/* Read ${text}, the value of SYMTUNER_MACHINE: keys of a [provenance] section, separated by
 * semicolons. If ${text} is wrong, write the reason to ${error}, set all members of ${machine} to
 * unknown and return false. */
bool st_machine_read(const char *text, struct symtuner_machine *machine, char *error, size_t size);

#endif
