/* SPDX-License-Identifier: Apache-2.0 */
/*
 * post.h - send file descriptors to the other ranks of a group on this host, without waiting.
 *
 * Each rank listens on a Unix socket. The rank's address has the name of the socket, and a token,
 * which is a random number. The ranks read each other's addresses from shared memory. A rank
 * connects to a peer when it first sends to it, and Linux keeps a message until the peer asks for
 * it. Only processes of the same user exchange messages. A message contains the token of the rank
 * that it is for. So a rank ignores messages for an earlier process whose socket had the same name.
 *
 * Threads    one at a time for each struct ar_post.
 */
#ifndef AR_POST_H_
#define AR_POST_H_

#include <stdbool.h>
#include <stdint.h>

#include "kernels/shared/ipc.h"

struct ar_post_address {
    uint64_t token;
    uint32_t length; /* of ${name}, in bytes */
    char name[12];   /* an abstract name: it begins with a zero byte, and no file has it */
};

struct ar_post {
    int listener;
    int to[AR_IPC_RANKS];   /* [r]: connection to rank r; -1: not connected yet */
    int from[AR_IPC_RANKS]; /* connections of peers, in any order; -1: unused */
};

/* ar_post_open begins to listen, and sets *address to the address on which this rank listens. It
 * returns 0, or an errno number. Call ar_post_init before it. At the end call ar_post_close, even
 * if ar_post_open failed. */
void ar_post_init(struct ar_post *post);
int ar_post_open(struct ar_post *post, struct ar_post_address *address);
void ar_post_close(struct ar_post *post);

enum ar_post_sent {
    AR_POST_SENT,  /* the caller may close the descriptor */
    AR_POST_LATER, /* a buffer or a table of Linux is full: try again */
    AR_POST_NEVER  /* for example, the peer has ended; errno says why */
};

/* Send ${fd}, which is the descriptor of allocation ${number} of rank ${me}, to rank ${peer}, whose
 * address is ${address}. */
enum ar_post_sent ar_post_send(struct ar_post *post, int me, int peer,
                               const struct ar_post_address *address, int number, int fd);

/* A message that has come: the descriptor of allocation ${number} of rank ${rank}. */
struct ar_parcel {
    int rank, number; /* the sender's values; check whether they are in range */
    int fd;           /* the caller closes it; -1: this process has no room for a descriptor */
};

/* Receive a parcel. ${address} is this rank's own address. Returns false if no parcel has come. */
bool ar_post_receive(struct ar_post *post, const struct ar_post_address *address,
                     struct ar_parcel *parcel);

#endif
