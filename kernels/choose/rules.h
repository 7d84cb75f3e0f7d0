/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules.h - the [kernels] rules of SYMTUNER_RULE and SYMTUNER_RULES, which override the table.
 *
 * Ranks that choose different kernels wait for each other for ever. So a group uses rules only if
 * the hash of the rules that apply to it is the same on all ranks, and a rule depends on nothing
 * that may differ between ranks.
 *
 * Ownership  the handle owns its rules.
 * Threads    any.
 * Errors     wrong rules, or rules for another machine, give one warning and are ignored; creating
 *            a group never fails because of them. An unknown SYMTUNER_MODE gives a warning and
 *            is treated as in the plugin: as "steer".
 */
#ifndef AR_RULES_H_
#define AR_RULES_H_

#include <stdbool.h>

#include "kernels/choose/select.h"
#include "rules/rules.h"

enum { AR_RULES_NOTE = 240 };

/*
 * ar_rules_read(nccl, ranks, note): read the rules and return those that apply to a group of
 * ${ranks} on this machine, or NULL if none does. ${nccl}: NCCL's version, 0 without NCCL. ${note}
 * says what was read, or why nothing was; ${note} is "" if no variable is set. Free the result with
 * symtuner_rules_free.
 */
symtuner_rules *ar_rules_read(int nccl, int ranks, char note[AR_RULES_NOTE]);

/* Like ar_select and ar_select_why, but the first rule that covers the call overrides the table,
 * and a forced kernel overrides the rule. If the rule's kernel cannot run the call, the table
 * decides, and the reason says so. */
int ar_rules_select(const symtuner_rules *rules, const struct ar_ask *ask,
                    const struct ar_force *force, struct ar_choice *choice);
void ar_rules_why(const symtuner_rules *rules, const struct ar_ask *ask,
                  const struct ar_choice *choice, char *why, size_t size);

/* For ranks on several boxes: return the network-pieces of the first rule that has some and covers
 * the call, and write that rule's place to ${place}; -1: there is no such rule. */
enum { AR_PLACE = 64 };
int ar_rules_network(const symtuner_rules *rules, uint64_t bytes, int dtype, int op,
                     char place[AR_PLACE]);

bool ar_rules_network_any(const symtuner_rules *rules); /* whether a rule has any */

/* Has a rule of this process network-pieces, for whatever group? Prints nothing. */
bool ar_rules_ask_boxes(void);

/* Write ${note} and one line per rule to ${text}; returns the length of the whole text. */
size_t ar_rules_print(const symtuner_rules *rules, const char *note, char *text, size_t length);

/* Print a warning on stderr, each text only once per process, because every rank of the process
 * would repeat it; at most eight texts. SYMTUNER_LOG=off turns warnings off. */
void ar_rules_warn(const char *text);

/* Whether the driver says that NCCL may use NVLink multicast on this machine. */
bool ar_multicast_here(void);

#endif
