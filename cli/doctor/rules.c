/* SPDX-License-Identifier: Apache-2.0 */
/* rules.c - loads the rules that the environment and the conf files name. */
#include "cli/doctor/doctor.h"

void st_doctor_rules(struct st_doctor *doctor)
{
    static const struct {
        const char *variable;
        enum symtuner_status (*load)(const char *, symtuner_rules **, char *, size_t);
        bool file; /* the variable names a file */
    } source[] = {{"SYMTUNER_RULES", symtuner_rules_load, true},
                  {"SYMTUNER_RULE", symtuner_rules_inline, false},
                  {"NCCL_TUNER_CONFIG_FILE", symtuner_rules_load_csv, true}};

    for (int i = 0; i < 3; i++) {
        const struct st_setting *setting = st_doctor_get(doctor, source[i].variable);
        char full[ST_PATH], error[SYMTUNER_ERROR_MAX];
        symtuner_rules *rules = NULL;

        if (!setting || !setting->value[0] ||
            (source[i].file && !st_doctor_path(doctor, setting->value, full)))
            continue;
        if (source[i].load(source[i].file ? full : setting->value, &rules, error, sizeof error) !=
            SYMTUNER_OK)
            snprintf(doctor->rules_error[i], sizeof doctor->rules_error[i], "%s: %s",
                     source[i].variable, error);
        if (i == 0)
            doctor->rules = rules;
        else
            symtuner_rules_free(rules);
    }
}
