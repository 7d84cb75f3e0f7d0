#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# nodes.sh - draws docs/pictures/nodes.svg, the picture of docs/nodes.md: who talks to whom, and
# when.
#
# usage: docs/pictures/nodes.sh > docs/pictures/nodes.svg      (in the repository root)
set -u
awk 'BEGIN {
    print "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 438\" " \
          "font-family=\"sans-serif\" font-size=\"12\">"
    print "<title>Two boxes of four ranks: reduce-scatter in the box, ncclAllReduce between " \
          "equal places, all-gather in the box</title>"
    print "<style>"
    print "text{fill:#1f2328;text-anchor:middle}.left{text-anchor:start}.dim{fill:#59636e;" \
          "font-size:11px}.head{font-weight:bold;font-size:14px}"
    print ".box{fill:#f6f8fa;stroke:#59636e}.rank{fill:#ddf4ff;stroke:#54aeff}" \
          ".link{fill:#ddf4ff;stroke:#54aeff}.net{stroke:#bc4c00;stroke-width:2;fill:none}" \
          ".in{stroke:#54aeff;stroke-width:3;fill:none}"
    print ".rs{fill:#ddf4ff;stroke:#54aeff}.ag{fill:#dafbe1;stroke:#4ac26b}.ar{fill:#fff1e5;" \
          "stroke:#fb8f44}.wait{stroke:#59636e;stroke-width:1;stroke-dasharray:3 3;fill:none}"
    print "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.dim{fill:#9198a1}" \
          ".box{fill:#161b22;stroke:#9198a1}.rank,.link,.rs{fill:#0c2d6b;stroke:#1f6feb}" \
          ".in{stroke:#1f6feb}.net{stroke:#db6d28}.ag{fill:#033a16;stroke:#2ea043}" \
          ".ar{fill:#5a1e02;stroke:#db6d28}.wait{stroke:#9198a1}}"
    print "</style>"
    for (b = 0; b < 2; b++) {
        x = 10 + b * 400
        printf "<rect class=\"box\" x=\"%d\" y=\"10\" width=\"380\" height=\"132\" rx=\"6\"/>\n", x
        printf "<text x=\"%d\" y=\"30\" class=\"head\">box %d</text>\n", x + 190, b
        printf "<rect class=\"link\" x=\"%d\" y=\"42\" width=\"340\" height=\"20\" rx=\"4\"/>\n",
               x + 20
        printf "<text x=\"%d\" y=\"56\">NVLink: reduce-scatter and all-gather, " \
               "our kernels</text>\n", x + 190
        for (r = 0; r < 4; r++) {
            at = x + 60 + r * 87
            printf "<path class=\"in\" d=\"M%d 62V84\"/>\n", at
            printf "<rect class=\"rank\" x=\"%d\" y=\"84\" width=\"72\" height=\"46\" rx=\"4\"/>\n",
                   at - 36
            printf "<text x=\"%d\" y=\"103\">rank %d</text>\n<text x=\"%d\" y=\"120\" " \
                   "class=\"dim\">adds part %d</text>\n", at, 4 * b + r, at, r
        }
    }
    for (r = 0; r < 4; r++) {
        from = 70 + r * 87; to = from + 400; low = 164 + r * 18
        printf "<path class=\"net\" d=\"M%d 130V%dH%dV130\"/>\n", from, low, to
    }
    print "<text x=\"400\" y=\"240\">network: ncclAllReduce of part 0 between ranks 0 and 4, of " \
          "part 1 between 1 and 5, and so on</text>"
    # RS 0 | RS 1 | AG 0 | RS 2 | AG 1 | AG 2, as in kernels/nodes/model.h
    print "<text x=\"10\" y=\"276\" class=\"head left\">one rank, a message in three pieces</text>"
    print "<text x=\"10\" y=\"312\" class=\"left\">the caller\047s stream</text><text x=\"10\" " \
          "y=\"372\" class=\"left\">the network stream</text>"
    split("0 70 200 270 345 460", s); split("RS RS AG RS AG AG", w); split("0 1 0 2 1 2", p)
    for (i = 1; i <= 6; i++)
        printf "<rect class=\"%s\" x=\"%d\" y=\"294\" width=\"66\" height=\"28\" rx=\"4\"/>" \
               "<text x=\"%d\" y=\"312\">%s %s</text>\n",
               tolower(w[i]), 150 + s[i], 183 + s[i], w[i], p[i]
    for (i = 0; i < 3; i++)
        printf "<rect class=\"ar\" x=\"%d\" y=\"354\" width=\"126\" height=\"28\" rx=\"4\"/>" \
               "<text x=\"%d\" y=\"372\">AR %d</text>\n", 220 + i * 130, 283 + i * 130, i
    split("216 286 486", e); split("200 345 460", g)
    for (i = 1; i <= 3; i++) {
        printf "<path class=\"wait\" d=\"M%d 322L%d 354\"/>\n", e[i],
               (i == 1) ? 221 : 220 + (i - 1) * 130
        printf "<path class=\"wait\" d=\"M%d 354L%d 322\"/>\n", 344 + (i - 1) * 130, 152 + g[i]
    }
    print "<text x=\"400\" y=\"408\" class=\"dim\">RS reduce-scatter in the box, AR " \
          "ncclAllReduce of this rank\047s part, AG all-gather in the box;</text>"
    print "<text x=\"400\" y=\"424\" class=\"dim\">a dotted line is a wait for an event</text>"
    print "</svg>"
}'
