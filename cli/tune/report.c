/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - writes the page of tune: its data as JSON, which cli/report/report.html draws. */
#include <stdlib.h>
#include <string.h>

#include "cli/report/report.h"
#include "cli/text.h"
#include "cli/tune/tune.h"
#include "symtuner_why.h"

/* Quote ${word} for a shell: a'b becomes 'a'\''b'. Free the result with free(). */
static char *shell_word(const char *word)
{
    static const char harmless[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+";
    const char *quote = word[strspn(word, harmless)] ? "'" : "";
    char *quoted = NULL;
    size_t size;
    FILE *memory = open_memstream(&quoted, &size);

    if (!memory)
        return NULL;
    fputs(quote, memory);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", memory);
        else
            fputc(*word, memory);
    fputs(quote, memory);
    fclose(memory);
    return quoted;
}

static void page(const void *self, struct st_json *json)
{
    const struct st_tune *tune = self;
    int nvlink = tune->machine.nvlink, multicast = tune->machine.multicast;
    char *word = shell_word(st_text_base(tune->out)); /* the page shows no folder of the user */

    st_json_open(json, NULL, "{");
    st_json_text(json, "page", "tune");
    st_json_text(json, "command", tune->command);
    st_json_text(json, "dtype", symtuner_dtype_name(tune->dtype));
    st_json_text(json, "links", nvlink < 0 ? "links unknown" : nvlink ? "NVLink" : "PCIe");
    st_json_text(json, "multicast", multicast < 0 ? "unknown" : multicast ? "on" : "off");
    st_json_text(json, "rules_word", word);
    st_json_open(json, "nccl_at", "{"); /* sizes at which the rules leave a collective to NCCL */
    for (int c = 0; c < SYMTUNER_COLLS; c++) {
        if (!(tune->own >> c & 1))
            continue;
        st_json_open(json, symtuner_coll_name(c), "[");
        for (int z = 0; z < st_tune_sizes(tune); z++)
            if (tune->say[c][z] == ST_SAY_NCCL)
                st_json_int(json, NULL, (int64_t)st_tune_bytes(tune, z));
        st_json_close(json);
    }
    st_json_close(json);
    st_json_gap(json, "\n ");
    st_tune_json(json, "result", tune, false);
    st_json_close(json);
    free(word);
}

bool st_tune_write_report(const struct st_tune *tune)
{
    return st_report_write("tune", tune->html, tune->force, page, tune);
}
