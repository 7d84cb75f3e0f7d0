/* SPDX-License-Identifier: Apache-2.0 */
/* rules.c - loads the rules that the environment and the conf files name. */
#include "cli/doctor/doctor.h"
#include "cli/text.h"

void st_doctor_rules(struct st_doctor *doctor)
{
    static const struct {
        const char *variable;
        enum symtuner_status (*load)(const char *, symtuner_rules **, char *, size_t);
        bool file; /* the variable names a file */
    } source[] = {{"SYMTUNER_RULES", symtuner_rules_load, true},
                  {"SYMTUNER_RULE", symtuner_rules_inline, false},
                  {"NCCL_TUNER_CONFIG_FILE", symtuner_rules_load_csv, true}};
    size_t at = 0;

    for (int i = 0; i < 3; i++) {
        const struct st_setting *setting = st_doctor_get(doctor, source[i].variable);
        char full[ST_PATH], error[SYMTUNER_ERROR_MAX];
        symtuner_rules *rules = NULL;
        enum symtuner_status status;
        const char *from = source[i].file ? full : setting ? setting->value : NULL;

        if (!setting || !setting->value[0] ||
            (source[i].file && !st_doctor_path(doctor, setting->value, full)))
            continue;
        status = source[i].load(from, &rules, error, sizeof error);
        if (status == SYMTUNER_EIO)
            at = st_text_add(doctor->rules_unread, sizeof doctor->rules_unread, at, "%s%s: %s",
                             at ? "; " : "", source[i].variable, error);
        else if (status != SYMTUNER_OK)
            snprintf(doctor->rules_error[i], sizeof doctor->rules_error[i], "%s: %s",
                     source[i].variable, error);
        if (i == 0)
            doctor->rules = rules;
        else
            symtuner_rules_free(rules);
    }
}
