"""What the hooks cost the scheduler's thread, measured inside a real engine process.

Thread CPU time (CLOCK_THREAD_CPUTIME_ID) inside each hook, its boundary included and the cost of reading the clock
taken off, and inside `run_batch` below all hooks, in the scheduler processes of a SGLang 0.5.19 prefill/decode pair on
a CPU with a toy model. Blocks of requests with the hooks measured, on and off take turns inside the same processes. A
request has a prompt of 64 tokens and an answer of 16; its cost is all that hooks spent in a block, polls without a
request aside, divided by the block's requests. A step's cost is what hooks spend from one decode step to the next of
the same batch, the median over steps. A fact's cost is that of one call of the recorder, its page ids included.

The share of a 10 ms step takes a GPU's step time as given; the share of `run_batch` is that of this CPU and this model.
On a CPU page ids need no copy from a device: the exact tier's asynchronous copies are not in these figures. Throughput
with the hooks on and off is a sanity check: a cost of 1 % is far below what it can resolve.
"""

from benchmarks.overhead.measure import GOALS, TITLE, figures, run

__all__ = ["GOALS", "TITLE", "figures", "run"]
