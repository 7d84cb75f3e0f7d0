/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tma_staged.cuh - chunked.cu's kernels for few blocks: TMA moves the data, and most threads only
 * add. They need no registered buffer.
 *
 *   push    warp 0   chunk of in[shard o] -> shared -> slot at owner o, then REDUCE flag
 *   own     warp 1   REDUCE flags; my tile and those in my slots -> shared
 *           warps 3+ add them up
 *           warp 1   sum -> out, and -> every rank's gather slot (or recv, if the peers map it),
 *                    then GATHER flag
 *   fetch   warp 2   GATHER flag; chunk of my gather slot -> shared -> out
 *
 * That is an all-reduce. A reduce-scatter has no fetch and no GATHER flag. In an all-gather there is
 * nothing to add: each rank pushes its part to all peers, and fetches theirs after the REDUCE flags.
 * Both end with a barrier, so that no rank pushes data of the next call into a slot that is still
 * read; in an all-reduce the GATHER flags say that.
 *
 * One thread of each of these warps moves data, through a ring of its own. Flags count chunks. To
 * raise one, a thread waits until its copies are complete; so it does that for several chunks at a
 * time, and for copies that are some time ago. Why one set of scratch is enough, and why it works
 * in place, is as in chunked.cu.
 *
 * TMA needs addresses at multiples of 16 bytes. Where this rank's in or out has another alignment,
 * warps load and store what TMA cannot, also the last bytes of a message. The other ranks do
 * not notice.
 */
#ifndef AR_TMA_STAGED_CUH_
#define AR_TMA_STAGED_CUH_

#include "kernels/device/bulk.cuh"
#include "kernels/device/tma_ptx.cuh"

namespace ar
{

/* How many copies may be under way when an older one must be complete. */
#ifdef ST_EMULATE
#define AR_TMA_PENDING 2
#else
#define AR_TMA_PENDING 8
#endif

using sum_ring = tma_ring<AR_TMA_SUMS>;
using move_ring = tma_ring<AR_TMA_MOVES>;

/* Which chunks this block moves: every gridDim.x-th of each shard, or of each part. */
template <int Coll> struct staged_call {
    const ar_args &args;
    uint64_t epoch, chunks; /* chunks of the longest shard */
    uint32_t batch;         /* chunks from flag to flag */

    __device__ __forceinline__ staged_call(const ar_args &args, uint64_t epoch)
        : args(args), epoch(epoch)
    {
        chunks = ar_tma_count(whole(0), AR_TMA_CHUNK, (int)blockIdx.x, (int)gridDim.x);
        batch = chunks < 16 ? 1 : chunks < 64 ? (uint32_t)chunks / 8 : 8;
    }
    __device__ __forceinline__ uint64_t bytes(int shard) const
    {
        return Coll == AR_ALL_REDUCE ? ar_shard_bytes(args.bytes, args.shard, shard) : args.bytes;
    }
    /* Where shard or part ${shard} begins in send, and in recv. */
    __device__ __forceinline__ const char *in(int shard) const
    {
        return args.in + (Coll == AR_ALL_REDUCE       ? args.shard
                          : Coll == AR_REDUCE_SCATTER ? args.stride
                                                      : 0) *
                             (uint64_t)shard;
    }
    __device__ __forceinline__ char *out(int shard) const
    {
        return args.out + (Coll == AR_ALL_REDUCE   ? args.shard
                           : Coll == AR_ALL_GATHER ? args.stride
                                                   : 0) *
                              (uint64_t)shard;
    }
    /* Where the chunks that the fetch copies lie, and which flag says so. */
    __device__ __forceinline__ char *fetched(int from) const
    {
        return slot(args.me, Coll == AR_ALL_GATHER ? args.region : args.half, from);
    }
    static constexpr int fetch_flag = Coll == AR_ALL_GATHER ? AR_FLAG_REDUCE : AR_FLAG_GATHER;
    /* The bytes of a shard that TMA can move; fewer than 16 may be left. */
    __device__ __forceinline__ uint64_t whole(int shard) const
    {
        return bytes(shard) / AR_WORD * AR_WORD;
    }
    __device__ __forceinline__ uint64_t my_chunks() const
    {
        return ar_tma_count(whole(args.me), AR_TMA_CHUNK, (int)blockIdx.x, (int)gridDim.x);
    }
    __device__ __forceinline__ bool has_tail(int shard) const
    {
        return blockIdx.x == 0 && bytes(shard) % AR_WORD != 0;
    }
    __device__ __forceinline__ uint64_t offset(uint64_t k) const
    {
        return (k * gridDim.x + blockIdx.x) * AR_TMA_CHUNK;
    }
    /* Bytes from ${at} of a shard, at most ${most}; 0 past its end. */
    __device__ __forceinline__ uint32_t length(int shard, uint64_t at, uint32_t most) const
    {
        uint64_t end = whole(shard);

        return at >= end ? 0 : end - at < most ? (uint32_t)(end - at) : most;
    }
    __device__ __forceinline__ int peer(int i) const
    {
        return args.me + i < args.ranks ? args.me + i : args.me + i - args.ranks;
    }
    /* Rank ${writer}'s slot in the scratch of rank ${at}. */
    __device__ __forceinline__ char *slot(int at, uint64_t region, int writer) const
    {
        return args.peer[at] + region + (uint64_t)writer * args.shard;
    }
    /* Tell all peers that ${chunks} chunks are there; chunks + 1: and the last bytes. */
    __device__ __forceinline__ void raise(int kind, uint64_t count) const
    {
        fence_sys();
        for (int i = 1; i < args.ranks; i++)
            store_relaxed(
                (uint64_t *)(args.peer[peer(i)] + ar_flag_offset(kind, blockIdx.x, args.me)),
                ar_flag_step(epoch, count));
    }
    /* Tell them that so many chunks of sums are there. */
    __device__ __forceinline__ void raise_sums(uint64_t count) const
    {
        if (Coll == AR_ALL_REDUCE)
            raise(AR_FLAG_GATHER, count);
    }
    /* Whether peer ${from} has raised its flag for ${count} chunks. */
    __device__ __forceinline__ bool reached(int kind, int from, uint64_t count) const
    {
        const uint64_t *flag =
            (const uint64_t *)(args.peer[args.me] + ar_flag_offset(kind, blockIdx.x, from));

        return ar_reached(load_acquire(flag), ar_flag_step(epoch, count));
    }
    __device__ __forceinline__ bool await(int kind, int from, uint64_t count,
                                          spin_limit &wait) const
    {
        uint32_t polls = 0;

        while (!reached(kind, from, count))
            if (give_up(args, polls, wait))
                return false;
        return true;
    }
};

/* The next chunk of the next peer. */
struct job {
    uint64_t k;
    int i;

    __device__ __forceinline__ void next(int ranks)
    {
        if (++i == ranks) {
            i = 1;
            k++;
        }
    }
};

/* Copy a chunk by the 32 threads of a warp. */
static __device__ __noinline__ void copy_in(char *shared, const char *from, uint64_t at, uint32_t n,
                                            uint64_t end, int align)
{
    for (uint32_t x = threadIdx.x % 32 * AR_WORD; x < n; x += 32 * AR_WORD)
        store_shared(shared + x, as_word(load_payload(from, at + x, end, align)));
}

static __device__ __noinline__ void copy_out(char *to, const char *slot, uint64_t at, uint32_t n,
                                             uint64_t end, int align)
{
    for (uint32_t x = threadIdx.x % 32 * AR_WORD; x < n; x += 32 * AR_WORD)
        store_payload(to, at + x, end, align, as_payload(load_bulk(slot + at + x)));
}

/* ---- warp 0 ---------------------------------------------------------------------------------- */

template <int Coll>
__device__ __forceinline__ void push_load(const staged_call<Coll> &c, const move_ring &ring,
                                          uint64_t j, const struct job &at)
{
    const int to = c.peer(at.i);
    const uint32_t n = c.length(to, c.offset(at.k), AR_TMA_CHUNK);

    barrier_expect(ring.full(j), n);
    if (n != 0)
        bulk_load(ring.stage(j), c.in(to) + c.offset(at.k), n, ring.full(j));
}

template <int Coll>
__device__ __forceinline__ void push_store(const staged_call<Coll> &c, const char *stage,
                                           const struct job &at)
{
    const int to = c.peer(at.i);
    const uint32_t n = c.length(to, c.offset(at.k), AR_TMA_CHUNK);

    if (n != 0)
        bulk_store(c.slot(to, c.args.region, c.args.me) + c.offset(at.k), stage, n);
    bulk_commit();
}

/* All lanes call it; lane 0 works, unless the threads must load. */
template <int Coll>
static __device__ __forceinline__ void push(const staged_call<Coll> &c, const move_ring &ring)
{
    constexpr int lag = AR_TMA_MOVES / 3;
    const int ranks = c.args.ranks;
    const bool aligned = c.args.in_align == AR_WORD, lane0 = threadIdx.x % 32 == 0;
    const uint64_t jobs = c.chunks * (uint64_t)(ranks - 1);
    uint64_t ahead = 0, sent = 0, told = 0;
    job load = {0, 1}, store = {0, 1};
    int part = 0; /* jobs of the next chunk that are complete */

    if (aligned && !lane0)
        return;
    for (; aligned && ahead < jobs && ahead < AR_TMA_MOVES; ahead++, load.next(ranks))
        push_load(c, ring, ahead, load);
    for (uint64_t j = 0; j < jobs; j++, store.next(ranks)) {
        if (aligned) {
            barrier_wait(ring.full(j), ring.parity(j));
        } else {
            const int to = c.peer(store.i);

            if (lane0)
                bulk_wait_read<0>();
            __syncwarp(~0u);
            copy_in(ring.stage(j), c.in(to), c.offset(store.k),
                    c.length(to, c.offset(store.k), AR_TMA_CHUNK), c.bytes(to), c.args.in_align);
            fence_async();
            __syncwarp(~0u);
            if (!lane0)
                continue;
        }
        push_store(c, ring.stage(j), store);
        if (ahead < jobs && j >= lag && aligned) {
#ifndef ST_BREAK_STAGE
            bulk_wait_read<lag>();
#endif
            push_load(c, ring, ahead, load);
            load.next(ranks);
            ahead++;
        }
        if (j < AR_TMA_PENDING)
            continue;
#ifndef ST_BREAK_PENDING
        bulk_wait<AR_TMA_PENDING>();
#endif
        if (++part == ranks - 1) {
            part = 0;
            sent++;
        }
        if (sent >= told + c.batch) {
            told = sent;
            c.raise(AR_FLAG_REDUCE, told);
        }
    }
    if (!lane0)
        return;
    bulk_wait<0>();
    for (int to = 0; to < ranks; to++)
        if (to != c.args.me && c.has_tail(to))
            store_bulk(c.slot(to, c.args.region, c.args.me) + c.whole(to),
                       as_word(load_payload(c.in(to), c.whole(to), c.bytes(to), c.args.in_align)));
    c.raise(AR_FLAG_REDUCE, c.chunks + 1);
}

/* ---- warp 1, and the warps that add ---------------------------------------------------------- */

/* Which tile of my shard is the q-th: where it begins, and how many bytes it has, perhaps none. */
struct my_tile {
    uint64_t at;
    uint32_t bytes;

    template <int Coll>
    __device__ __forceinline__ my_tile(const staged_call<Coll> &c, uint64_t q, uint32_t tile)
    {
        const uint32_t parts = ar_tma_parts(c.args.ranks);

        at = c.offset(q >> parts) + (q & ((1u << parts) - 1)) * tile;
        bytes = c.length(c.args.me, at, tile);
    }
};

template <int Coll>
__device__ __forceinline__ void own_load(const staged_call<Coll> &c, const sum_ring &ring,
                                         uint64_t q, uint32_t tile)
{
    const my_tile t(c, q, tile);
    const bool mine = c.args.in_align == AR_WORD;

    barrier_expect(ring.full(q), t.bytes * (uint32_t)(c.args.ranks - !mine));
    for (int r = 0; r < c.args.ranks && t.bytes != 0; r++)
        if (r != c.args.me)
            bulk_load(ring.stage(q) + (uint32_t)r * tile,
                      c.slot(c.args.me, c.args.region, r) + t.at, t.bytes, ring.full(q));
        else if (mine)
            bulk_load(ring.stage(q) + (uint32_t)r * tile, c.in(c.args.me) + t.at, t.bytes,
                      ring.full(q));
}

template <int Coll>
__device__ __forceinline__ void own_store(const staged_call<Coll> &c, const sum_ring &ring,
                                          uint64_t q, uint32_t tile)
{
    const my_tile t(c, q, tile);
    const uint64_t shard = c.args.shard * (uint64_t)c.args.me; /* in every rank's recv */

    for (int i = 1; i < c.args.ranks && t.bytes != 0 && Coll == AR_ALL_REDUCE; i++) {
        int to = c.peer(i);

        bulk_store((c.args.staged ? c.slot(to, c.args.half, c.args.me) : c.args.dst[to] + shard) +
                       t.at,
                   ring.stage(q), t.bytes);
    }
    if (c.args.out_align == AR_WORD && t.bytes != 0)
        bulk_store(c.out(c.args.me) + t.at, ring.stage(q), t.bytes);
    bulk_commit();
}

/* Add up the last bytes of my shard. */
template <class R, int Coll>
static __device__ __noinline__ void own_tail(const staged_call<Coll> &c)
{
    const ar_args &args = c.args;
    const uint64_t shard = args.shard * args.me, at = c.whole(args.me), end = c.bytes(args.me);
    rank_sum<R, 2, 0> sum;
    payload v[4], own = load_payload(c.in(args.me), at, end, args.in_align), all;

    for (int first = 0; first < args.ranks; first += 4) {
        for (int i = 0; i < 4; i++)
            if (first + i < args.ranks)
                v[i] = first + i == args.me
                           ? own
                           : as_payload(load_bulk(c.slot(args.me, args.region, first + i) + at));
        sum.take(first, args.ranks, v, args.kind);
    }
    all = sum.finish(args);
    store_payload(c.out(args.me), at, end, args.out_align, all);
    for (int i = 1; i < args.ranks && Coll == AR_ALL_REDUCE; i++)
        if (args.staged)
            store_bulk(c.slot(c.peer(i), args.half, args.me) + at, as_word(all));
        else
            store_payload(args.dst[c.peer(i)] + shard, at, end, AR_WORD, all);
}

/* What lane 0 of warp 1 does. Returns false if the rank gave up. */
template <class R, int Coll>
static __device__ __forceinline__ bool own(const staged_call<Coll> &c, const sum_ring &ring,
                                           spin_limit &wait)
{
    constexpr int lag = AR_TMA_SUMS / 3;
    const uint32_t tile = ar_tma_tile(c.args.ranks), parts = ar_tma_parts(c.args.ranks);
    const uint64_t tiles = c.my_chunks() << parts;
    uint64_t loaded = 0, stored = 0, ready = 0, told = 0;
    uint32_t polls = 0;
    bool alive = true;

    while (alive && stored < tiles) {
        bool idle = true;

        if (loaded < tiles && loaded + lag < stored + AR_TMA_SUMS) {
#ifndef ST_BREAK_REDUCE
            bool here = loaded < ready;

            if (!here) {
                here = true;
                for (int i = 1; i < c.args.ranks; i++)
                    here = here && c.reached(AR_FLAG_REDUCE, c.peer(i), (loaded >> parts) + 1);
                if (here) {
                    fence_async();
                    ready = ((loaded >> parts) + 1) << parts;
                }
            }
            if (here)
#endif
            {
                if (loaded >= AR_TMA_SUMS)
                    bulk_wait_read<lag>();
                own_load(c, ring, loaded, tile);
                loaded++;
                idle = false;
            }
        }
        if (stored < loaded && barrier_has_ended(ring.done(stored), ring.parity(stored))) {
            own_store(c, ring, stored, tile);
            stored++;
            idle = false;
            if (stored > AR_TMA_PENDING) {
                bulk_wait<AR_TMA_PENDING>();
                if ((stored - AR_TMA_PENDING) >> parts >= told + c.batch) {
                    told = (stored - AR_TMA_PENDING) >> parts;
                    c.raise_sums(told);
                }
            }
        }
        if (idle && loaded == stored) { /* waits for peers */
            if (stored >> parts > told) {
                bulk_wait<0>();
                told = stored >> parts;
                c.raise_sums(told);
            }
            alive = !give_up(c.args, polls, wait);
        }
    }
    for (uint64_t q = stored; q < loaded; q++) /* gave up: no copy may outlive the block */
        barrier_wait(ring.full(q), ring.parity(q));
    bulk_wait<0>();
    if (alive && c.has_tail(c.args.me)) {
        for (int i = 1; i < c.args.ranks && alive; i++)
            alive = c.await(AR_FLAG_REDUCE, c.peer(i), c.chunks + 1, wait);
        if (alive)
            own_tail<R>(c);
    }
    if (alive)
        c.raise_sums(c.chunks + 1);
    return alive;
}

/* What the warps that add do. ${stop}: nothing more will come. */
template <class R, int N, int Coll>
static __device__ __forceinline__ void add(const staged_call<Coll> &c, const sum_ring &ring,
                                           const volatile uint32_t *stop)
{
    constexpr int batch = N ? N : 4;
    const ar_args &args = c.args;
    const int ranks = N ? N : args.ranks;
    const uint32_t tile = ar_tma_tile(ranks);
    const uint64_t tiles = c.my_chunks() << ar_tma_parts(ranks);
    const uint64_t end = c.bytes(args.me);

    for (uint64_t q = 0; q < tiles; q++) {
        const my_tile t(c, q, tile);
        char *stage = ring.stage(q);

        while (!barrier_ended(ring.full(q), ring.parity(q)))
            if (*stop != 0)
                return;
        for (uint32_t at = (threadIdx.x - 96) * AR_WORD; at < t.bytes;
             at += (blockDim.x - 96) * AR_WORD) {
            rank_sum<R, 2, N> sum;
            payload own, all;

            if (args.in_align != AR_WORD)
                own = load_payload(c.in(args.me), t.at + at, end, args.in_align);
            else
                own = as_payload(load_shared(stage + args.me * tile + at));
            for (int first = 0; first < ranks; first += batch) {
                payload v[batch];

#pragma unroll
                for (int i = 0; i < batch; i++) {
                    v[i] = own;
                    if (first + i < ranks && first + i != args.me)
                        v[i] = as_payload(load_shared(stage + (first + i) * tile + at));
                }
                sum.take(first, ranks, v, args.kind);
            }
            all = sum.finish(args);
            store_shared(stage + at, as_word(all));
            if (args.out_align != AR_WORD)
                store_payload(c.out(args.me), t.at + at, end, args.out_align, all);
        }
        fence_async();
        __syncwarp(~0u);
        if (threadIdx.x % 32 == 0)
            barrier_arrive(ring.done(q));
    }
}

/* ---- warp 2 ---------------------------------------------------------------------------------- */

/* Start to load a chunk once its flag is up; returns false if the rank gave up. */
template <int Coll>
__device__ __forceinline__ bool fetch_load(const staged_call<Coll> &c, const move_ring &ring,
                                           uint64_t j, const struct job &at, spin_limit &wait)
{
    const int from = c.peer(at.i);
    const uint32_t n = c.length(from, c.offset(at.k), AR_TMA_CHUNK);

#ifndef ST_BREAK_GATHER
    if (n != 0 && !c.await(c.fetch_flag, from, at.k + 1, wait))
        return false;
#endif
    fence_async();
    barrier_expect(ring.full(j), n);
    if (n != 0)
        bulk_load(ring.stage(j), c.fetched(from) + c.offset(at.k), n, ring.full(j));
    return true;
}

/* By TMA, lane 0 only. */
template <int Coll>
static __device__ __forceinline__ bool fetch(const staged_call<Coll> &c, const move_ring &ring,
                                             spin_limit &wait)
{
    constexpr int lag = AR_TMA_MOVES / 3;
    const int ranks = c.args.ranks;
    const uint64_t jobs = c.chunks * (uint64_t)(ranks - 1);
    uint64_t ahead = 0, done = 0;
    job load = {0, 1}, store = {0, 1};
    bool alive = true;

    while (done < (alive ? jobs : ahead)) {
        const bool room = alive && ahead < jobs && ahead + lag < done + AR_TMA_MOVES;

        if (room && (ahead == done || !barrier_has_ended(ring.full(done), ring.parity(done)))) {
            if (ahead >= AR_TMA_MOVES)
                bulk_wait_read<lag>();
            alive = fetch_load(c, ring, ahead, load, wait);
            ahead += alive;
            load.next(ranks);
            continue;
        }
        barrier_wait(ring.full(done), ring.parity(done));

        const int from = c.peer(store.i);
        const uint32_t n = c.length(from, c.offset(store.k), AR_TMA_CHUNK);

        if (n != 0)
            bulk_store(c.out(from) + c.offset(store.k), ring.stage(done), n);
        bulk_commit();
        store.next(ranks);
        done++;
    }
    bulk_wait<0>();
    return alive;
}

/* By the threads of the warp, because out is not aligned. All lanes call it. */
template <int Coll>
static __device__ __noinline__ bool fetch_slowly(const staged_call<Coll> &c, spin_limit &wait)
{
    for (uint64_t k = 0; k < c.chunks; k++)
        for (int i = 1; i < c.args.ranks; i++) {
            const int from = c.peer(i);
            const uint32_t n = c.length(from, c.offset(k), AR_TMA_CHUNK);
            bool here = true;

            if (n != 0 && threadIdx.x % 32 == 0)
                here = c.await(c.fetch_flag, from, k + 1, wait);
            if (!__all_sync(~0u, here))
                return false;
            copy_out(c.out(from), c.fetched(from), c.offset(k), n, c.bytes(from), c.args.out_align);
        }
    return true;
}

/* Wait for the peers' last flags, and fetch the last bytes. */
template <int Coll>
static __device__ __forceinline__ bool fetch_tail(const staged_call<Coll> &c, spin_limit &wait)
{
    for (int i = 1; i < c.args.ranks; i++) {
        const int from = c.peer(i);

        if (!c.await(c.fetch_flag, from, c.chunks + 1, wait))
            return false;
        if ((Coll == AR_ALL_GATHER || c.args.staged) && c.has_tail(from))
            store_payload(c.out(from), c.whole(from), c.bytes(from), c.args.out_align,
                          as_payload(load_bulk(c.fetched(from) + c.whole(from))));
    }
    return true;
}

/* ---- all-gather: this rank's own part --------------------------------------------------------- */

/* What the warps behind the third one do, unless the part is in its place already. */
template <int Coll> static __device__ __forceinline__ void keep_own(const staged_call<Coll> &c)
{
    const char *from = c.in(c.args.me);
    char *to = c.out(c.args.me);
    const uint64_t end = c.bytes(c.args.me);

    for (uint64_t k = 0; from != to && k <= c.chunks; k++) {
        const bool tail = k == c.chunks;
        const uint64_t first = tail ? c.whole(c.args.me) : c.offset(k);
        const uint32_t n = tail ? c.has_tail(c.args.me) : c.length(c.args.me, first, AR_TMA_CHUNK);

        for (uint32_t at = (threadIdx.x - 96) * AR_WORD; at < n; at += (blockDim.x - 96) * AR_WORD)
            store_payload(to, first + at, end, c.args.out_align,
                          load_payload(from, first + at, end, c.args.in_align));
    }
}

/* ---- the kernel ------------------------------------------------------------------------------ */

template <class R, int N, int Coll>
__global__ void __launch_bounds__(AR_TMA_THREADS, 1)
    tma_staged(const __grid_constant__ ar_args args)
{
    AR_SHARED(shared);
    const int warp = (int)threadIdx.x / 32;
    const bool lane0 = threadIdx.x % 32 == 0;
    char *const moves = shared + AR_TMA_SUMS * AR_TMA_TILES;
    uint64_t *const barriers = (uint64_t *)(shared + AR_TMA_STAGES * AR_TMA_TILES);
    volatile uint32_t *const stop = (volatile uint32_t *)(barriers + AR_TMA_BARRIERS / 8 - 1);
    const sum_ring sums = {shared, AR_TMA_TILES, barriers, barriers + AR_TMA_SUMS};
    const move_ring out = {moves, AR_TMA_CHUNK, barriers + 2 * AR_TMA_SUMS, NULL};
    const move_ring in = {moves + AR_TMA_MOVES * AR_TMA_CHUNK, AR_TMA_CHUNK,
                          barriers + 2 * AR_TMA_SUMS + AR_TMA_MOVES, NULL};
    spin_limit wait;

    if (threadIdx.x == 0) {
        *stop = 0;
        sums.init((int)blockDim.x / 32 - 3);
        out.init(0);
        in.init(0);
    }
    await_previous_kernel(args);

    call_counters counters(args);
    const staged_call<Coll> call(args, counters.epoch);
    const bool alive = !__syncthreads_or(counters.dead);

    stall(args, counters.epoch, 1 + warp);
    if (alive && warp == 0) {
        fence_async();
        push(call, out);
    } else if (alive && warp == 1 && lane0 && Coll != AR_ALL_GATHER) {
        fence_async();
        if (!own<R>(call, sums, wait))
            *stop = 1;
    } else if (alive && warp == 2 && Coll != AR_REDUCE_SCATTER) {
        const bool fetches = Coll == AR_ALL_GATHER || args.staged;
        bool right = true;

        if (fetches && args.out_align != AR_WORD)
            right = fetch_slowly(call, wait);
        else if (fetches && lane0)
            right = fetch(call, in, wait);
        if (lane0 && !(right && fetch_tail(call, wait)))
            *stop = 1;
    } else if (alive && warp >= 3) {
        if constexpr (Coll == AR_ALL_GATHER)
            keep_own(call);
        else
            add<R, N>(call, sums, stop);
    }
    counters.book_in(args);
#ifndef ST_BREAK_LEAVE
    if (Coll != AR_ALL_REDUCE && alive && *stop == 0) {
        raise_flags(args, AR_FLAG_LEAVE, ar_flag_step(counters.epoch, 1));
        await_flags(args, AR_FLAG_LEAVE, ar_flag_step(counters.epoch, 1), wait);
    }
#endif
    counters.publish(args);
}

} // namespace ar

/* The kernels of one reducer. */
#define AR_TMA_STAGED_FAST(R, coll)                                                                \
    {                                                                                              \
        (const void *)&ar::tma_staged<R, 0, coll>, (const void *)&ar::tma_staged<R, 2, coll>,      \
            (const void *)&ar::tma_staged<R, 4, coll>                                              \
    }
#define AR_TMA_STAGED_SMALL(R, coll)                                                               \
    {                                                                                              \
        (const void *)&ar::tma_staged<R, 0, coll>                                                  \
    }

#endif
