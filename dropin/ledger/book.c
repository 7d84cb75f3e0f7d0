/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/ledger/book.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/append.h"
#include "base/exit_lock.h"
#include "dropin/settings.h"
#include "nccl/release.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct st_book *open_books;

/* ---- text ------------------------------------------------------------------------------------ */

static void write_size(FILE *out, int coll, int size)
{
    fprintf(out, " coll=%s bytes=%llu..%llu", st_tally_coll_word(coll), size ? 1ull << size : 0ull,
            (2ull << size) - 1);
}

static void write_rows(FILE *out, const struct st_book *book, int coll, int size)
{
    const unsigned long long parts = book->also[coll][size][ST_BOOK_PARTS];
    char word[ST_TALLY_WORD];

    if (parts) {
        fputs("parts", out);
        write_size(out, coll, size);
        fprintf(out, " count=%llu\n", parts);
    }
    for (int why = 0; why < ST_WHYS; why++) {
        unsigned long long calls = book->calls[coll][size][why];

        if (calls == 0)
            continue;
        fputs(why == ST_WHY_OURS ? "ours" : "left", out);
        write_size(out, coll, size);
        if (why == ST_WHY_OURS)
            fprintf(out, " count=%llu captured=%llu verified=%llu\n", calls,
                    (unsigned long long)book->also[coll][size][ST_BOOK_CAPTURED],
                    (unsigned long long)book->also[coll][size][ST_BOOK_VERIFIED]);
        else
            fprintf(out, " why=%s count=%llu\n", st_tally_why_word(why, word), calls);
    }
}

static void write_text(FILE *out, const struct st_book *book)
{
    char release[16], host[72];

    st_append_host(host, sizeof host);
    fprintf(out,
            "# symtuner ledger 1\n"
            "comm writer=drop-in id=0x%016llx ranks=%d rank=%d local=1 nccl=%s mode=%s host=%s "
            "pid=%d opened=%llu\n",
            (unsigned long long)book->key, book->ranks, book->rank,
            st_release_print(book->nccl, release, sizeof release),
            st_settings()->observe ? "observe" : "steer", host, (int)getpid(),
            (unsigned long long)book->opened);
    for (int coll = 0; coll < ST_BOOK_COLLS; coll++)
        for (int size = 0; size < ST_TALLY_SIZES; size++)
            write_rows(out, book, coll, size);
    fputs("end\n", out);
}

/* Append the book to the file that SYMTUNER_LEDGER names. If the number of ranks is not known, the
 * communicator had no call, and nothing is written. */
static void dump(const struct st_book *book)
{
    char error[ST_APPEND_ERROR], *text = NULL;
    enum st_append done;
    size_t size = 0;
    FILE *memory;

    if (book->pid != getpid() || book->ranks == 0 || !(memory = open_memstream(&text, &size)))
        return;
    write_text(memory, book);
    if (fclose(memory) == 0) {
        done = st_append(st_settings()->ledger, text, size, error);
        if (done != ST_APPEND_ALL)
            st_warn_once("SYMTUNER_LEDGER=%s; the drop-in's counters of a communicator are %s",
                         error, done == ST_APPEND_CUT ? "cut off" : "lost");
    }
    free(text);
}

/* ---- life ------------------------------------------------------------------------------------ */

void symtuner_nccl_ledger(void)
{
    pthread_mutex_lock(&lock);
    for (const struct st_book *book = open_books; book; book = book->next)
        dump(book);
    pthread_mutex_unlock(&lock);
}

/* Write the books of the communicators that still exist: many programs exit without destroying
 * their communicators. */
static void write_at_exit(void)
{
    if (!st_exit_lock(&lock))
        return;
    for (const struct st_book *book = open_books; book; book = book->next)
        dump(book);
    pthread_mutex_unlock(&lock);
}

static void register_exit(void)
{
    atexit(write_at_exit);
}

struct st_book *st_book_open(uint64_t key, int rank, int ranks, int nccl)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static uint64_t latest; /* ${opened} of the book that was opened last */
    struct st_book *book;
    struct timespec t;
    uint64_t now;

    if (!st_settings()->ledger || !(book = calloc(1, sizeof *book)))
        return NULL;
    pthread_once(&once, register_exit);
    book->key = key;
    book->rank = rank;
    book->ranks = ranks;
    book->nccl = nccl;
    book->pid = getpid();
    clock_gettime(CLOCK_REALTIME, &t);
    now = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
    pthread_mutex_lock(&lock);
    latest = now > latest ? now : latest + 1;
    book->opened = latest;
    book->next = open_books;
    open_books = book;
    pthread_mutex_unlock(&lock);
    return book;
}

/* Return the place in the list of open books that holds the pointer to ${book}. If the book is not
 * open, the place holds NULL. The caller holds ${lock}. */
static struct st_book **find(const struct st_book *book)
{
    struct st_book **at = &open_books;

    while (*at && *at != book)
        at = &(*at)->next;
    return at;
}

/* First write the book, and then take it off the list. So if the program exits meanwhile,
 * write_at_exit writes the book. If the ledger then has it twice, readers take the later one. */
void st_book_close(struct st_book *book)
{
    struct st_book **at;
    bool open;

    if (!book)
        return;
    pthread_mutex_lock(&lock);
    open = *find(book) != NULL;
    pthread_mutex_unlock(&lock);
    if (!open)
        return;
    dump(book);
    pthread_mutex_lock(&lock);
    at = find(book);
    if (*at)
        *at = book->next;
    pthread_mutex_unlock(&lock);
}
