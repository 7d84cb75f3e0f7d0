#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# by-size.sh - draws docs/pictures/by-size.svg, a picture of docs/measurements.md, from measured
# rows. Needs xz.
#
# usage: docs/pictures/by-size.sh > docs/pictures/by-size.svg      (in the repository root)
#
# Above: NCCL's own collectives on symmetric windows, speed with the plugin over speed without, by
# size. A point is the median of five rounds. Below: stock jax.lax.psum; a bar is the median over
# four rounds of the best call of a round, as bench/jax_psum.py prints it.
set -u
folder=bench/results/2026-11-22-h200x2b

{
    xz -dc "$folder/nccl-default-in-force.csv.xz" | awk -F, 'NR > 1 { print $4, $5, $2, $6 }'
    xz -dc "$folder/jax-psum-2.csv.xz" | awk -F, '
        NR > 1 {
            calls = split($5, us, " ")
            best = us[1]
            for (i = 2; i <= calls; i++) if (us[i] + 0 < best + 0) best = us[i]
            print "psum", $4, $2, best
        }'
} | LC_ALL=C sort -k1,1 -k2,2n -k3,3 -k4,4n | awk '
    function x_of(bytes) { return 56 + (log(bytes) / log(2) - 10) * 20 }
    function y_of(speed) { return 262 - (speed - 0.72) * 174 }
    function text(x, y, class, words) {
        printf "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">%s</text>\n", x, y, class, words
    }
    function grid(from, to,    speed) {
        for (speed = 0.8; speed < 1.85; speed += 0.2) {
            printf "<path class=\"%s\" d=\"M%d %.1fH%d\"/>\n",
                   (speed > 0.99 && speed < 1.01) ? "one" : "grid", from, y_of(speed), to
            text(from - 6, y_of(speed) + 4, "end", sprintf("%.1f", speed))
        }
    }
    # rows come sorted: the median of a group is the one in its middle
    {
        key = $1 " " $2 " " $3
        if (!(key in rows) && $3 != "env") sizes[$1] = sizes[$1] " " $2
        value[key, ++rows[key]] = $4
    }
    function median(key,    n) {
        n = rows[key]
        return (value[key, int((n + 1) / 2)] + value[key, int(n / 2) + 1]) / 2
    }
    END {
        print "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"550\" height=\"787\" " \
              "viewBox=\"0 0 440 630\" font-family=\"sans-serif\" font-size=\"12\">"
        print "<title>Speed with symtuner against speed without it, 2 H200s, 2026-11-22</title>"
        print "<style>"
        print "text{fill:#1f2328}.dim{fill:#59636e}.end{text-anchor:end}" \
              ".mid,.num{text-anchor:middle}.head{font-weight:bold;font-size:13px}" \
              ".num{font-size:10px}"
        print ".grid{stroke:#d1d9e0}.one{stroke:#59636e}.line{fill:none;stroke-width:2.5}"
        print ".s0{stroke:#0969da}.s1{stroke:#1a7f37}.s2{stroke:#bc4c00}.b1{fill:#d4a72c}" \
              ".b2{fill:#0969da}"
        print "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.dim{fill:#9198a1}" \
              ".grid{stroke:#3d444d}.one{stroke:#9198a1}"
        print ".s0{stroke:#58a6ff}.s1{stroke:#3fb950}.s2{stroke:#f0883e}.b1{fill:#bb8009}" \
              ".b2{fill:#58a6ff}}"
        print "</style>"

        text(56, 20, "head", "NCCL, symmetric windows: speed, NCCL alone = 1")
        grid(56, 424)
        split("allreduce allgather reducescatter", coll, " ")
        split("all-reduce all-gather reduce-scatter", word, " ")
        for (c = 1; c <= 3; c++) {
            points = split(sizes[coll[c]], bytes, " ")
            path = ""
            for (i = 1; i <= points; i++) {
                key = coll[c] " " bytes[i] " "
                path = path sprintf("%s%.1f %.1f", i > 1 ? "L" : "M", x_of(bytes[i]),
                                    y_of(median(key "own") / median(key "env")))
            }
            printf "<path class=\"line s%d\" d=\"%s\"/>\n", c - 1, path
            printf "<path class=\"line s%d\" d=\"M70 %dh18\"/>\n", c - 1, 28 + 17 * c
            text(94, 32 + 17 * c, "", word[c])
        }
        split("1024 16384 262144 4194304 67108864", tick, " ")
        split("1 KiB,16 KiB,256 KiB,4 MiB,64 MiB", name, ",")
        for (i = 1; i <= 5; i++) text(x_of(tick[i]), 280, "mid", name[i])
        text(240, 297, "mid dim", "bytes (NCCL\047s nBytes)")

        print "<g transform=\"translate(-434 305)\">"
        text(490, 20, "head", "stock jax.lax.psum: speed, XLA default = 1")
        grid(490, 790)
        split("sym env", mode, " ")
        split("XLA on symmetric buffers,the same with symtuner", word, ",")
        points = split(sizes["psum"], bytes, " ")
        for (i = 1; i <= points; i++) {
            if (bytes[i] == bytes[i - 1]) continue
            left = 496 + 75 * n++
            text(left + 32, 280, "mid", bytes[i] / 1048576 " MiB")
            for (m = 1; m <= 2; m++) {
                speed = median("psum " bytes[i] " default") / median("psum " bytes[i] " " mode[m])
                printf "<path class=\"b%d\" d=\"M%d %.1fV%.1fh26V%.1fz\"/>\n", m,
                       left + 5 + 28 * (m - 1), y_of(1), y_of(speed), y_of(1)
                text(left + 5 + 28 * (m - 1) + 13, y_of(speed) + (speed < 1 ? 12 : -4), "num",
                     sprintf("%.2f", speed))
            }
        }
        for (m = 1; m <= 2; m++) {
            printf "<path class=\"b%d\" d=\"M600 %dh12v12h-12z\"/>\n", m, 31 + 17 * m
            text(618, 41 + 17 * m, "", word[m])
        }
        text(640, 297, "mid dim", "bf16 bytes on each GPU")
        print "</g>"
        text(56, 621, "dim", "2 x H200, no multicast, NCCL 2.28.9, 2026-11-22")
        print "</svg>"
    }'
