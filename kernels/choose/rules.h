/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules.h - the [kernels] rules of SYMTUNER_RULE and SYMTUNER_RULES, in front of the table.
 *
 * Ranks that decide differently wait for each other for ever. So a group uses rules only when the
 * hash of what is left of them for this group is the same on all ranks, and a rule sees nothing of
 * a call that could differ between ranks.
 *
 * Ownership  the handle owns its rules. Threads  any. Errors  wrong or foreign rules are one
 * warning, and the table decides: they never fail a create. A SYMTUNER_MODE that is none is a
 * warning and means what it means to the plugin.
 */
#ifndef AR_RULES_H_
#define AR_RULES_H_

#include <stdbool.h>

#include "kernels/choose/select.h"
#include "rules/rules.h"

enum { AR_RULES_NOTE = 240 };

/*
 * ar_rules_read(nccl, ranks, note): the rules for a group of ${ranks} (${nccl} 0: without NCCL),
 * those of other groups and machines left out. NULL when none is left; ${note} says why when
 * somebody set a variable, else it is "". Freed with symtuner_rules_free.
 */
symtuner_rules *ar_rules_read(int nccl, int ranks, char note[AR_RULES_NOTE]);

/* As ar_select and ar_select_why, but the first rule that covers the call comes before the table.
 * What is forced comes before the rule; a rule that asks for what cannot run gives way to the
 * table, and why says so. */
int ar_rules_select(const symtuner_rules *rules, const struct ar_ask *ask,
                    const struct ar_force *force, struct ar_choice *choice);
void ar_rules_why(const symtuner_rules *rules, const struct ar_ask *ask,
                  const struct ar_choice *choice, char *why, size_t size);

/* Append one line per rule, as ar_select_print does for the table. */
size_t ar_rules_print(const symtuner_rules *rules, const char *note, char *text, size_t length);

/* One line on stderr, once in this process and for eight texts at most: all ranks of a process find
 * the same. SYMTUNER_LOG=off keeps it silent. */
void ar_rules_warn(const char *text);

/* Whether NCCL may use NVLink multicast on this machine, as far as the driver says. */
bool ar_multicast_here(void);

#endif
