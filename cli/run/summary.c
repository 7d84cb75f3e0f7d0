/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/summary.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run/saved.h"
#include "cli/text.h"
#include "nccl/release.h"

enum { REASONS = 4, RELEASES = 4, WORD = 24 };

struct count {
    uint64_t calls, bytes;
};

struct sums {
    struct count call[ST_TALLY_COLLS][ST_WHYS];
    uint64_t comms[ST_WHYS];
    struct count jax, jax_nccl;
    uint64_t verified, differed, captured, by_boxes, pieces, jax_captured, jax_groups;
    int processes;
    int jax_only; /* processes that used the JAX route and called no NCCL that we know of */
};

static void add_cell(struct count *count, const struct st_tally_cell *cell)
{
    count->calls += cell->calls;
    count->bytes += cell->bytes;
}

static void add(struct sums *sums, const struct st_tally_slot *slot)
{
    sums->processes++;
    for (int c = 0; c < ST_TALLY_COLLS; c++)
        for (int w = 0; w < ST_WHYS; w++)
            add_cell(&sums->call[c][w], &slot->call[c][w]);
    add_cell(&sums->jax, &slot->jax);
    add_cell(&sums->jax_nccl, &slot->jax_nccl);
    sums->jax_captured += slot->jax_captured;
    sums->jax_groups += slot->jax_groups;
    sums->jax_only += slot->jax_groups && slot->nccl <= 0;
    for (int w = 0; w < ST_WHYS; w++)
        sums->comms[w] += slot->comms[w];
    sums->verified += slot->verified;
    sums->differed += slot->differed;
    sums->captured += slot->captured;
    sums->by_boxes += slot->by_boxes;
    sums->pieces += slot->pieces;
}

/* Write ${bytes} into ${text} as a rounded size such as "4.1 GiB". Returns ${text}. */
static const char *size(uint64_t bytes, char text[WORD])
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    int u = 0;

    while (value >= 1000 && u < 6) {
        value /= 1024;
        u++;
    }
    snprintf(text, WORD, value < 10 && u ? "%.1f %s" : "%.0f %s", value, unit[u]);
    return text;
}

/* Write a number with its noun into ${text}: "1 call", "2 calls". Returns ${text}. */
static const char *number(uint64_t count, const char *what, char text[WORD * 2])
{
    snprintf(text, WORD * 2, "%" PRIu64 " %s%s", count, what,
             count == 1                      ? ""
             : what[strlen(what) - 1] == 's' ? "es"
                                             : "s");
    return text;
}

/* ---- parts of the summary -------------------------------------------------------------------- */

static void print_head(const struct st_tally *tally, const struct sums *sums, FILE *out)
{
    int used = st_tally_used(tally), release[RELEASES], releases = 0;
    char text[WORD * 2];

    fprintf(out, "symtuner run: %s", number((uint64_t)sums->processes, "process", text));
    for (int i = 0; i < used; i++) {
        int r = 0, nccl = tally->slot[i].nccl;

        while (r < releases && release[r] != nccl)
            r++;
        if (nccl <= 0 || r < releases || releases == RELEASES)
            continue;
        release[releases++] = nccl;
        fprintf(out, "%s%s", releases > 1 ? ", " : " called NCCL ",
                st_release_print(nccl, text, sizeof text));
    }
    if (sums->jax_only)
        fprintf(out, "%s used the JAX route", releases ? " or" : "");
    if (tally->claimed > (uint32_t)ST_TALLY_SLOTS)
        fprintf(out, " (more are not counted)");
    fputc('\n', out);
}

/* Return ${part} of ${all} in per cent, rounded, but at least 1 and at most 99: 0 would say that
 * our kernels ran no call, and 100 that they ran all. */
static int percent(uint64_t part, uint64_t all)
{
    int rounded = (int)((double)part / (double)all * 100 + 0.5);

    return rounded < 1 ? 1 : rounded > 99 ? 99 : rounded;
}

/* Print how many calls there were, and how many of them our kernels ran. */
static void print_calls(const char *what, struct count all, struct count ours, FILE *out)
{
    char calls[WORD * 2], bytes[WORD];

    fprintf(out, "  %-13s %14s %8s", what, number(all.calls, "call", calls),
            size(all.bytes, bytes));
    if (ours.calls == 0)
        fprintf(out, "   none by our kernels\n");
    else if (ours.calls == all.calls)
        fprintf(out, "   all by our kernels\n");
    else
        fprintf(out, "   %" PRIu64 " by our kernels (%d %%), %s\n", ours.calls,
                percent(ours.calls, all.calls), size(ours.bytes, bytes));
}

static void print_coll(const struct sums *sums, int coll, FILE *out)
{
    struct count all = {0, 0};

    for (int w = 0; w < ST_WHYS; w++) {
        all.calls += sums->call[coll][w].calls;
        all.bytes += sums->call[coll][w].bytes;
    }
    if (all.calls)
        print_calls(st_tally_coll_word(coll), all, sums->call[coll][ST_WHY_OURS], out);
}

static void print_jax(const struct sums *sums, FILE *out)
{
    struct count all = {sums->jax.calls + sums->jax_nccl.calls,
                        sums->jax.bytes + sums->jax_nccl.bytes};

    if (all.calls)
        print_calls("JAX route", all, sums->jax, out);
    else if (sums->jax_groups)
        fprintf(out, "  JAX route      no calls\n");
}

/* A reason why NCCL ran calls, and how many calls it ran for this reason. */
struct reason {
    uint64_t times;
    int why; /* ST_WHY_... (dropin/tally.h) */
};

static int by_times(const void *a, const void *b)
{
    const struct reason *one = a, *other = b;

    return one->times != other->times ? (one->times < other->times ? 1 : -1)
                                      : one->why - other->why;
}

/* Print the most frequent reasons. times[w] is how often NCCL ran something for reason w.
 * times[ST_WHY_OURS] is left out, because it is no reason. */
static void print_reasons(const uint64_t times[ST_WHYS], const char *what, FILE *out)
{
    struct reason reason[ST_WHYS];
    uint64_t others = 0;
    char text[WORD * 2];

    for (int w = 0; w < ST_WHYS; w++)
        reason[w] = (struct reason){w == ST_WHY_OURS ? 0 : times[w], w};
    qsort(reason, ST_WHYS, sizeof *reason, by_times);
    for (int i = 0; i < ST_WHYS; i++) {
        if (i >= REASONS)
            others += reason[i].times;
        else if (reason[i].times)
            fprintf(out, "  NCCL ran %s: %s\n", number(reason[i].times, what, text),
                    st_tally_why_text(reason[i].why));
    }
    if (others)
        fprintf(out, "  NCCL ran %s for other reasons\n", number(others, what, text));
}

static void print_whys(const struct sums *sums, FILE *out)
{
    uint64_t calls[ST_WHYS] = {0}, total = 0;

    for (int c = 0; c < ST_TALLY_COLLS; c++)
        for (int w = 0; w < ST_WHYS; w++) {
            calls[w] += sums->call[c][w].calls;
            total += sums->call[c][w].calls;
        }
    if (total)
        print_reasons(calls, "call", out);
    else /* no calls: print why communicators were left to NCCL */
        print_reasons(sums->comms, "communicator", out);
}

static void print_notes(const struct st_tally *tally, const struct sums *sums, FILE *out)
{
    int used = st_tally_used(tally);
    char text[WORD * 2], pieces[WORD * 2];

    if (sums->by_boxes)
        fprintf(out, "  %s by our kernels ran box by box, in %s\n",
                number(sums->by_boxes, "call", text), number(sums->pieces, "piece", pieces));
    if (sums->captured)
        fprintf(out,
                "  %s by our kernels went into CUDA graphs, and count once however often these "
                "run\n",
                number(sums->captured, "call", text));
    if (sums->jax_captured)
        fprintf(out,
                "  %s of the JAX route went into CUDA graphs, and count%s once each time XLA "
                "records %s\n",
                number(sums->jax_captured, "call", text), sums->jax_captured == 1 ? "s" : "",
                sums->jax_captured == 1 ? "it" : "them");
    if (sums->verified)
        fprintf(out, "  %s ran by our kernels and by NCCL, and %" PRIu64 " differed\n",
                number(sums->verified, "call", text), sums->differed);
    for (int i = 0; i < used; i++) { /* all ranks have the same warning: print the first */
        const struct st_tally_slot *slot = &tally->slot[i];
        const char *note = st_tally_noted(slot);

        if (!note[0])
            continue;
        fprintf(out, "  %.63s (%d): %.255s\n", slot->program, (int)slot->pid, note);
        break;
    }
}

void st_run_summary(const struct st_tally *tally, FILE *out)
{
    struct sums sums = {.processes = 0};
    int used = st_tally_used(tally);

    for (int i = 0; i < used; i++)
        if (tally->slot[i].pid)
            add(&sums, &tally->slot[i]);
    if (sums.processes == 0) {
        fprintf(out, "symtuner run: no process made an NCCL communicator under the drop-in, and "
                     "none used the JAX route\n");
        return;
    }
    print_head(tally, &sums, out);
    for (int c = 0; c < ST_TALLY_COLLS; c++)
        print_coll(&sums, c, out);
    print_jax(&sums, out);
    print_whys(&sums, out);
    print_notes(tally, &sums, out);
    st_run_saved(tally, out);
}
