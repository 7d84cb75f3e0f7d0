/* SPDX-License-Identifier: Apache-2.0 */
/* rules.c - loads the rules that the environment and the conf files name. */
#include "cli/doctor/doctor.h"

/* Set ${full} to the file that ${variable} names, under the root; return false if it names none. */
static bool named(const struct st_doctor *doctor, const char *variable, char full[ST_PATH])
{
    const struct st_setting *setting = st_doctor_get(doctor, variable);

    return setting && setting->value[0] && st_doctor_path(doctor, setting->value, full);
}

void st_doctor_rules(struct st_doctor *doctor)
{
    const struct st_setting *rule = st_doctor_get(doctor, "SYMTUNER_RULE");
    symtuner_rules *other = NULL;
    char full[ST_PATH];

    if (named(doctor, "SYMTUNER_RULES", full))
        symtuner_rules_load(full, &doctor->rules, doctor->rules_error, SYMTUNER_ERROR_MAX);
    if (rule && rule->value[0])
        symtuner_rules_inline(rule->value, &other, doctor->rule_error, SYMTUNER_ERROR_MAX);
    symtuner_rules_free(other);
    other = NULL;
    if (named(doctor, "NCCL_TUNER_CONFIG_FILE", full))
        symtuner_rules_load_csv(full, &other, doctor->csv_error, SYMTUNER_ERROR_MAX);
    symtuner_rules_free(other);
}
