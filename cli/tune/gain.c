/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gain.c - computes how much less time the calls in a program's ledger (docs/ledger.md) would take
 * if the program used what tune chose. All times are those that tune measured.
 *
 * For each call these times are looked up:
 *   before    the time of the kind of kernel that the call ran on, with NCCL's own CTA count
 *   plugin    for a call on a symmetric kernel: its time with the CTA count that tune chose. For
 *             other calls: the time "before".
 *   kernels   for a call for which the rules choose a kernel of symtuner: the time of that kernel.
 *             For other calls: the time "plugin".
 *
 * A call on a general kernel counts as one without registered buffers. It gets the time of a
 * symtuner kernel only if that kernel always copies the buffers, because tune measured the other
 * kernels with registered buffers.
 *
 * A ledger says in which range of sizes a call was, from one power of two to the next, but not
 * which type it had. So a call gets times for the smallest size of its range, and for the type that
 * was measured.
 */
#include <math.h>
#include <string.h>

#include "cli/text.h"
#include "cli/tune/tune.h"
#include "symtuner_why.h"

/* How much time the calls of a ledger would save with the plugin alone, and with the plugin and
 * symtuner's kernels. */
enum { GAIN_PLUGIN, GAIN_KERNELS, GAINS };
struct gain {
    uint64_t calls;        /* calls whose times were measured                     */
    uint64_t left;         /* all other calls                                     */
    double before;         /* us: sum over ${calls} calls, with NCCL's own choice */
    double after[GAINS];   /* us: sum over the same calls, with what tune chose   */
    double percent[GAINS]; /* by how many per cent ${after} is below ${before}    */
    double spread[GAINS];  /* standard deviation of ${percent}                    */
    unsigned own;          /* bit c is set: symtuner's kernels would run some calls of
                              collective c                                        */
};

/* Return the cell of the symtuner kernel that the rules choose for calls of ${coll} of size number
 * ${z}. Returns NULL if the rules choose NCCL, or if the kernel was measured only for registered
 * buffers and the buffers are not ${registered}. */
static const struct st_cell *own_cell(const struct st_tune *tune, int coll, int z, bool registered)
{
    const struct st_cell *own = &tune->cell[coll][ST_OWN][z];
    const char *way = tune->ways[coll][z] ? tune->way[coll][z][tune->pick[coll][z]].name : "";

    return own->n && tune->say[coll][z] != ST_SAY_NCCL && (registered || st_tune_copies(way))
               ? own
               : NULL;
}

/* Add ${calls} calls of one collective and size. They ran on symmetric kernels if ${symmetric} is
 * set, otherwise on general kernels. Returns false if their times were not measured. */
static bool add(struct gain *gain, const struct st_tune *tune, int coll, int z, bool symmetric,
                uint64_t calls)
{
    const struct st_cell(*cells)[ST_TUNE_SIZES] = tune->cell[coll];
    const struct st_cell *before = &cells[symmetric ? ST_SYMMETRIC : ST_GENERAL][z];
    const struct st_cell *plugin = &cells[symmetric ? ST_SYMMETRIC + tune->chosen : ST_GENERAL][z];
    const struct st_cell *own = own_cell(tune, coll, z, symmetric);
    const struct st_cell *after[GAINS] = {plugin, own ? own : plugin};
    double n = (double)calls;

    if (!before->n || !plugin->n)
        return false;
    gain->calls += calls;
    gain->before += n * before->median;
    for (int i = 0; i < GAINS; i++) {
        gain->after[i] += n * after[i]->median;
        if (after[i] != before) /* add the variance of the difference */
            gain->spread[i] +=
                n * n * (before->sigma * before->sigma + after[i]->sigma * after[i]->sigma);
    }
    gain->own |= (unsigned)(own != NULL) << coll;
    return true;
}

static struct gain gain_of(const struct st_tune *tune)
{
    const struct st_ledgers *ledgers = &tune->ledger;
    struct gain gain = {0};

    for (int b = 0; b < ledgers->blocks; b++)
        for (int r = 0; r < ledgers->block[b].rows; r++) {
            const struct st_ledger_block *block = &ledgers->block[b];
            const struct st_ledger_row *row = &block->row[r];
            const uint64_t *count = row->count, general = count[ST_COUNT_GENERAL],
                           symmetric = count[ST_COUNT_SYMMETRIC];
            uint64_t called = count[ST_COUNT_CALLED] + count[ST_COUNT_CAPTURED],
                     ran = general + symmetric + count[ST_COUNT_CE], had = gain.calls;
            int z = 0;

            if (row->kind != ST_ROW_RAN)
                continue;
            while (z < st_tune_sizes(tune) && st_tune_bytes(tune, z) != row->lo)
                z++;
            if (block->ranks == tune->ranks && block->nodes <= 1 && z < st_tune_sizes(tune)) {
                add(&gain, tune, row->coll, z, false, general);
                add(&gain, tune, row->coll, z, true, symmetric);
            }
            called = called > ran ? called : ran;
            gain.left += called - (gain.calls - had);
        }
    for (int i = 0; i < GAINS && gain.calls; i++) {
        gain.percent[i] = 100 * (1 - gain.after[i] / gain.before);
        gain.spread[i] = 100 * sqrt(gain.spread[i]) / gain.before;
    }
    return gain;
}

/* Write "You gain 16.5 ±0.4 %" into ${text}. A difference below two standard deviations is no
 * gain. */
static void gain_text(const struct gain *gain, int which, char *text, size_t size)
{
    double percent = gain->percent[which], spread = gain->spread[which];

    snprintf(text, size,
             percent > 2 * spread && percent >= 0.05
                 ? "You gain %.1f ±%.1f %%"
                 : "You gain nothing that is more than noise (%.1f ±%.1f %%)",
             percent, spread);
}

void st_tune_print_gain(const struct st_tune *tune, FILE *out)
{
    const struct gain gain = gain_of(tune);
    const char *file = st_text_base(tune->ledger_file);
    double n = (double)gain.calls;
    char line[600], text[100];

    if (gain.calls) {
        gain_text(&gain, GAIN_PLUGIN, text, sizeof text);
        snprintf(
            line, sizeof line,
            "%s on the mix of %.200s with the plugin: a call takes %.2f us instead of %.2f us, "
            "the mean of %llu calls, timed as %s.",
            text, file, gain.after[GAIN_PLUGIN] / n, gain.before / n,
            (unsigned long long)gain.calls, symtuner_dtype_name(tune->dtype));
    } else {
        snprintf(line, sizeof line,
                 "No call of %.200s was measured: none has these %d ranks, sizes and collectives.",
                 file, tune->ranks);
    }
    fputc('\n', out);
    st_text_wrap(out, 0, line);
    if (gain.own) {
        gain_text(&gain, GAIN_KERNELS, text, sizeof text);
        snprintf(line, sizeof line, "%s if symtuner's kernels run its %s as well: %.2f us.", text,
                 gain.own == 1u << SYMTUNER_ALLREDUCE ? "all-reduces" : "collectives",
                 gain.after[GAIN_KERNELS] / n);
        st_text_wrap(out, 0, line);
    }
    if (gain.calls && gain.left) {
        snprintf(line, sizeof line,
                 "Not counted: %llu calls of other ranks, sizes, collectives or kernels than were "
                 "measured.",
                 (unsigned long long)gain.left);
        st_text_wrap(out, 0, line);
    }
}

void st_tune_json_gain(struct st_json *json, const struct st_tune *tune)
{
    static const char *const name[GAINS] = {"plugin", "kernels"};
    const struct gain gain = gain_of(tune);

    st_json_open(json, "gain", "\n {");
    st_json_text(json, "ledger", st_text_base(tune->ledger_file));
    st_json_int(json, "calls", (int64_t)gain.calls);
    st_json_int(json, "not_counted", (int64_t)gain.left);
    if (gain.calls)
        st_json_format(json, "before_us", "%.6f", gain.before / (double)gain.calls);
    for (int i = 0; i < GAINS && gain.calls; i++) {
        if (i == GAIN_KERNELS && !gain.own)
            continue;
        st_json_open(json, name[i], "{");
        st_json_format(json, "us", "%.6f", gain.after[i] / (double)gain.calls);
        st_json_format(json, "percent", "%.3f", gain.percent[i]);
        st_json_format(json, "sigma", "%.3f", gain.spread[i]);
        st_json_close(json);
    }
    st_json_close(json);
}
