/* SPDX-License-Identifier: Apache-2.0 */
/* source.h - the line of the user's program that an instruction comes from. */
#ifndef HLO_SOURCE_H_
#define HLO_SOURCE_H_

#include "jax/hlo/module.h"

/* Write "file:line" to ${text}, or "" if the module does not say it. */
void hlo_source_line(const struct hlo_module *module, const struct hlo_instruction *in, char *text,
                     size_t size);

/* Copy ${bytes} to ${text} as far as they fit, with '?' for each byte that cannot be printed. */
void hlo_text(struct hlo_bytes bytes, char *text, size_t size);

#endif
