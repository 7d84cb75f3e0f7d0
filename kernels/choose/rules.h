/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules.h - the [kernels] rules of SYMTUNER_RULE and SYMTUNER_RULES, which override the table of
 * rows.h.
 *
 * Ranks that choose different kernels wait for each other for ever. So a group uses rules only if
 * the hash of the rules that apply to it is the same on all ranks. No rule depends on anything that
 * may differ between ranks.
 *
 * Ownership  the handle owns its rules.
 * Threads    any.
 * Errors     wrong rules, and rules for another machine, give one warning and are ignored. Creating
 *            a group never fails because of rules. An unknown SYMTUNER_MODE gives a warning and
 *            means "steer", as in the plugin.
 */
#ifndef AR_RULES_H_
#define AR_RULES_H_

#include <stdbool.h>

#include "kernels/choose/select.h"
#include "rules/rules.h"

enum { AR_RULES_NOTE = 240 }; /* bytes of the note of ar_rules_read */

/*
 * ar_rules_read(nccl, ranks, note): read the rules and return those that apply to a group of
 * ${ranks} ranks on this machine, or NULL if no rule applies. ${nccl} is NCCL's version, 0 without
 * NCCL. ${note} says what was read, or why nothing was read. It is "" if no variable is set. Free
 * the result with symtuner_rules_free.
 */
symtuner_rules *ar_rules_read(int nccl, int ranks, char note[AR_RULES_NOTE]);

/* Do what ar_select and ar_select_why do, but also follow rules: the first rule that covers the
 * call overrides the table, and a forced kernel overrides the rule. If the kernel of the rule
 * cannot run the call, the table decides, and ${why} says so. */
int ar_rules_select(const symtuner_rules *rules, const struct ar_ask *ask,
                    const struct ar_force *force, struct ar_choice *choice);
void ar_rules_why(const symtuner_rules *rules, const struct ar_ask *ask,
                  const struct ar_choice *choice, char *why, size_t size);

/* For ranks on several boxes (kernels/nodes): find the first rule that has the key network-pieces
 * and covers the call. Return the value of the key, and write the file and the line of the rule to
 * ${place}. Return -1 if there is no such rule. */
enum { AR_PLACE = 64 };
int ar_rules_network(const symtuner_rules *rules, uint64_t bytes, int dtype, int op,
                     char place[AR_PLACE]);

/* Return whether any of ${rules} has the key network-pieces. */
bool ar_rules_network_any(const symtuner_rules *rules);

/* Read the rules again, and return whether any of them has the key network-pieces. Rules for other
 * groups count, too. Prints no warning. */
bool ar_rules_ask_boxes(void);

/* Write ${note} and one line for each rule to ${text}, as much as fits. Returns the length of the
 * whole text. */
size_t ar_rules_print(const symtuner_rules *rules, const char *note, char *text, size_t length);

/* Print a warning on stderr. A process prints each text only once, because otherwise every rank of
 * the process would print it. A process prints at most eight warnings. With SYMTUNER_LOG=off it
 * prints none. */
void ar_rules_warn(const char *text);

/* Return whether symtuner_machine_find (symtuner.h) says that NCCL can use NVLink multicast on this
 * machine. */
bool ar_multicast_here(void);

#endif
