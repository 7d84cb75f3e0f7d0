/* SPDX-License-Identifier: Apache-2.0 */
/* headline.c - how the report of tune begins: what the rules gain, and how to use them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/text.h"
#include "cli/tune/tune.h"

/* Time of one against another: the geometric mean over sizes, and the least and the most. */
struct gain {
    double mean, least, most;
    int at_least, at_most, sizes;
};

/* The fastest that NCCL has without symtuner: general kernels, or symmetric ones as it runs them. */
static double nccl_us(const struct st_tune *tune, int coll, int size)
{
    const struct st_cell *general = &tune->cell[coll][ST_GENERAL][size],
                         *symmetric = &tune->cell[coll][ST_SYMMETRIC][size];

    if (!general->n || !symmetric->n)
        return general->n ? general->median : symmetric->n ? symmetric->median : 0;
    return general->median < symmetric->median ? general->median : symmetric->median;
}

/* ${candidate} against NCCL's fastest, or, where it is a CTA count, against NCCL's own count. */
static struct gain gain_of(const struct st_tune *tune, int coll, int candidate)
{
    struct gain gain = {.least = 1e30};

    for (int z = 0; z < st_tune_sizes(tune); z++) {
        const struct st_cell *cell = &tune->cell[coll][candidate][z];
        double before =
            candidate == ST_OWN ? nccl_us(tune, coll, z) : tune->cell[coll][ST_SYMMETRIC][z].median;
        double ratio = cell->n && before > 0 ? before / cell->median : 0;

        if (ratio <= 0)
            continue;
        gain.mean += log(ratio);
        gain.sizes++;
        if (ratio < gain.least) {
            gain.least = ratio;
            gain.at_least = z;
        }
        if (ratio > gain.most) {
            gain.most = ratio;
            gain.at_most = z;
        }
    }
    gain.mean = gain.sizes ? exp(gain.mean / gain.sizes) : 0;
    return gain;
}

static void print_gain(const struct st_tune *tune, int coll, int candidate, const char *against,
                       FILE *out)
{
    struct gain gain = gain_of(tune, coll, candidate);
    char most[ST_TEXT_SIZE], least[ST_TEXT_SIZE];

    if (gain.sizes)
        fprintf(out,
                "<li>%s: <b>%.2f times</b> as fast as %s (geometric mean of %d sizes; %.2f at "
                "%s, %.2f at %s)</li>\n",
                symtuner_coll_name(coll), gain.mean, against, gain.sizes, gain.most,
                st_text_size(st_tune_bytes(tune, gain.at_most), most), gain.least,
                st_text_size(st_tune_bytes(tune, gain.at_least), least));
}

void st_tune_headline(const struct st_tune *tune, FILE *out)
{
    int ctas = tune->ctas[tune->chosen];

    if (tune->chosen)
        fprintf(out,
                "<p class=\"headline\">With the <b class=\"plugin\">plugin</b> (libsymtuner.so) "
                "NCCL's symmetric kernels run on %d CTAs</p>\n",
                ctas);
    else
        fputs("<p class=\"headline\">The plugin (libsymtuner.so) leaves NCCL's CTA count as it is: "
              "no "
              "other one is better here</p>\n",
              out);
    fputs("<ul>\n", out);
    for (int c = SYMTUNER_COLLS - 1; c >= 0 && tune->chosen; c--)
        if (tune->colls >> c & 1)
            print_gain(tune, c, ST_SYMMETRIC + tune->chosen, "with NCCL's own count", out);
    fputs("</ul>\n", out);
    if (!tune->own)
        return;
    fputs("<p class=\"headline\">With the <b class=\"library\">library</b> (libsymtuner_ar.so), "
          "where "
          "the program calls it</p>\n<ul>\n",
          out);
    print_gain(tune, SYMTUNER_ALLREDUCE, ST_OWN, "the fastest of NCCL's kernels", out);
    fputs("</ul>\n", out);
}

/* 'a'\''b': one word for a shell. */
static void shell_word(const char *word, FILE *out)
{
    char one[2] = "", *quoted = NULL;
    size_t size;
    FILE *memory;

    if (word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+")] ==
        '\0') {
        st_xml_text(out, word);
        return;
    }
    memory = open_memstream(&quoted, &size);
    if (!memory)
        return;
    fputc('\'', memory);
    for (; *word; word++) {
        one[0] = *word;
        fputs(*word == '\'' ? "'\\''" : one, memory);
    }
    fputc('\'', memory);
    fclose(memory);
    st_xml_text(out, quoted);
    free(quoted);
}

void st_tune_usage(const struct st_tune *tune, FILE *out)
{
    char *path = realpath(tune->out, NULL); /* the rules are written before the report */

    fputs("<h2>Use these rules</h2>\n<pre>export SYMTUNER_RULES=", out);
    shell_word(path ? path : tune->out, out);
    fputs("\nexport NCCL_ENV_PLUGIN=libsymtuner.so     # before NCCL 2.28.7: NCCL_TUNER_PLUGIN"
          "\nsymtuner check --here \"$SYMTUNER_RULES\"    # do they fit the box they are used "
          "on?</pre>\n"
          "<p>The plugin reads [process], libsymtuner_ar.so reads [kernels], both from that file. "
          "<code>symtuner doctor</code> says whether NCCL finds the plugin.</p>\n",
          out);
    free(path);
}

const char *st_tune_title(const struct st_tune *tune, int candidate, char text[48])
{
    int ctas = candidate >= ST_SYMMETRIC ? tune->ctas[candidate - ST_SYMMETRIC] : 0;

    if (candidate == ST_GENERAL)
        snprintf(text, 48, "NCCL, general");
    else if (candidate == ST_OWN)
        snprintf(text, 48, "libsymtuner_ar.so");
    else if (candidate == ST_SYMMETRIC)
        snprintf(text, 48, "NCCL, symmetric");
    else if (candidate == ST_SYMMETRIC + tune->chosen)
        snprintf(text, 48, "with plugin, %d CTAs", ctas);
    else
        snprintf(text, 48, "symmetric, %d CTAs", ctas);
    return text;
}
