#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# gain.sh - draws docs/pictures/gain.svg, the picture of README.md, from measured rows. Needs xz.
#
# usage: docs/pictures/gain.sh > docs/pictures/gain.svg      (in the repository root)
#
# A bar is the speed with symtuner over the speed without.
set -u
results=bench/results

# Print "NAME RATIO" for each figure.
{
    # all points of NCCL's own collectives: the geometric mean of the medians' ratios
    xz -dc $results/2026-11-22-h200x2b/nccl-default-in-force.csv.xz |
        awk -F, 'NR > 1 { print "plugin", $4 "-" $5, $2, $6 }'
    # all-reduces of 16 to 256 MiB beside matrix products: the time until both are done
    sed -nE 's/^OVERLAP r[0-9]-([A-Z])[A-Z_]* ([0-9]+)MiB .* both ([0-9.]+) ms$/\1 \2 \3/p' \
        $results/2026-11-22-h200x2b/overlap.txt |
        awk '{ print "beside", $2, $1 == "A" ? "own" : "env", $3 }'
    # our all-reduce of 64 KiB against NCCL's fastest way there, its symmetric kernel with 32 CTAs
    xz -dc $results/2026-11-22-h200x4b/ar-compare.csv.xz | awk -F, '
        $1 == 2 && $2 == "procs" && $5 == "bf16" && $6 == "sum" && $7 == 65536 && $8 == "warm" &&
            $3 ~ /^(ours|sym32)$/ { print "kernel", $7, $3 == "ours" ? "env" : "own", $10 }'
    awk -F, '
        $1 == "jax decoder" && $2 == "decode batch 1" {
            print "decoder one env " 1 / $5
            print "decoder one own " 1 / $4
        }
    ' $results/2026-11-22-h200x2-steps/steps.csv
    awk -F, '
        $1 == "torch decode" && $2 == "batch 1" {
            print "decode one env " $5
            print "decode one own " $4
        }
        $1 == "jax sharded MLPs" && $2 == "batch 1" {
            print "sharded one env " $5
            print "sharded one own " $4
        }
    ' $results/2026-11-23-h200x2/steps.csv
    awk '$1 == "ddp" && $2 == 8 && $3 == "step" {
            print "ddp one env " $5
            print "ddp one own " $4
        }' $results/2026-11-24-h200x2/ddp-h100.txt
} | LC_ALL=C sort -k1,1 -k2,2 -k3,3 -k4,4g | awk '
    { key = $1 " " $2 " " $3; value[key, ++rows[key]] = $4; points[$1 " " $2] = $1 }
    function median(key,    n) {
        n = rows[key]
        return (value[key, int((n + 1) / 2)] + value[key, int(n / 2) + 1]) / 2
    }
    function text(x, y, class, words) {
        printf "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">%s</text>\n", x, y, class, words
    }
    function x_of(ratio) { return 12 + ratio * 190 }
    function head(words) { text(12, y + 14, "head", words); y += 24 }
    function bar(name, class, words,    ratio) {
        ratio = exp(sum[name] / count[name])
        text(12, y + 11, "", words)
        printf "<path class=\"%s\" d=\"M12 %.1fH%.1fV%.1fH12z\"/>\n", class, y + 16, x_of(ratio),
               y + 29
        printf "<path class=\"one\" d=\"M%.1f %.1fV%.1f\"/>\n", x_of(1), y + 15, y + 31
        text(x_of(ratio > 1 ? ratio : 1) + 6, y + 27, "num", sprintf("%.2f", ratio))
        y += 38
    }
    END {
        for (point in points) {
            sum[points[point]] += log(median(point " own") / median(point " env"))
            count[points[point]]++
        }
        print "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"575\" height=\"448\" " \
              "viewBox=\"0 0 460 358\" font-family=\"sans-serif\" font-size=\"13\">"
        print "<title>Speed with symtuner over speed without it, 2 H200s and 2 H100s, November " \
              "2026</title>"
        print "<style>"
        print "text{fill:#1f2328}.dim{fill:#59636e;font-size:12px}.head,.num{font-weight:bold}"
        print ".one{stroke:#1f2328;stroke-width:1.5}.ran{fill:#0969da}"
        print "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.dim{fill:#9198a1}" \
              ".one{stroke:#e6edf3}.ran{fill:#58a6ff}}"
        print "</style>"
        y = 4
        head("One call: how many times as fast")
        bar("plugin", "ran", "NCCL\047s kernels on symmetric windows, 1 KiB to 256 MiB: plugin")
        bar("beside", "ran", "all-reduces on such windows beside matrix products: plugin")
        bar("kernel", "ran", "all-reduce of 64 KiB: our kernel against NCCL\047s fastest")
        head("A whole step of a model")
        bar("decoder", "ran", "JAX decoder, batch 1: symtuner.all_reduce for psum")
        bar("sharded", "ran", "JAX sharded MLPs, batch 1: symtuner.install()")
        bar("decode", "ran", "PyTorch decode step, batch 1: drop-in")
        bar("ddp", "ran", "PyTorch training step (DDP), batch 8, 2 H100s: drop-in")
        text(12, y + 11, "dim", "Thin line: 1, no change. 2 H200s without multicast, " \
                                "2026-11-22 and 23; the last bar")
        text(12, y + 26, "dim", "2 H100s, 2026-11-24.")
        print "</svg>"
    }'
