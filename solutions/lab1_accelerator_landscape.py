# %% [markdown] id="title"
# {{badges}}
#
# # Lab 1: The accelerator landscape
#
# *{{course}}*
#
# **Four parts. The core exercises take about {{lab.minutes}} minutes; with the reading, plan two sittings, parts 1 and 2, then 3 and 4. Optional exercises (*stretch*) take {{lab.stretch_minutes}} minutes more. Works without a GPU, offline, on two CPU cores.**
#
# The same PyTorch model becomes a different execution on every accelerator. This lab builds the instrument that the whole course measures with, points it at the machine in front of you, explains from four numbers why a GPU is faster and by how much, and starts the map on which you will compare five ways to build an accelerator.
#
# After this lab you can
#
# * time work on an asynchronous device, and say what your number means and under which conditions;
# * count the FLOPs and bytes of an operator, and read the last cache and the bandwidth of memory out of a measured curve;
# * predict from peak and bandwidth, and say what lanes and clock have to do with them, how much faster another machine runs a matrix product, an elementwise operator, prefill and decode, at the same dtype;
# * name what such a prediction leaves out: launch overhead, occupancy, thermal limits;
# * answer four questions about any accelerator: what is the execution model, where is the memory, who schedules, what does the compiler control?
# * say for one model what limits it on each of five machines, and what a modelled number is worth.
#
# | part | question | you build |
# |---|---|---|
# | 1 | What does a clock see? | a benchmarking harness |
# | 2 | What does this machine do? | a cost model of operators |
# | 3 | Why is a GPU faster? | a prediction of the gap |
# | 4 | Five systems, four questions | the first rows of your Landscape Map |
#
# Every part starts from the set-up cell and from functions that you wrote before: after a lost runtime, run those, and go on where you were.

# %% [markdown] id="how-it-works"
# ## How a lab works
#
# An **exercise** cell holds one function with a gap; its docstring says what goes in and out, with units. The cell under it is its **check**: run it as often as you like. It says what was tested, what you returned, and one likely cause. Cells that need a function of yours **wait** until its check has given points, so "Run all" always reaches the end. Hints are folded, three to an exercise, from a nudge to a way in.
#
# **Predictions** are kept and shown again beside the result. They are never scored: being wrong in a particular way is the most useful thing that can happen to you here.
#
# **Stuck?** After a first attempt, however rough, the reply of a check that is not satisfied ends with a folded line that continues with the library's version: put it at the end of the exercise cell, under your own attempt. The exercise then earns 0 points, everything that needs it runs, and your notebook says so; take the line out to try again.
#
# Exercises marked *core* are the path; *stretch* ones are optional. Minutes are estimates, three for reading each exercise and one for each line of the reference solution: learners have not been timed yet.
#
# Every number carries its **kind**: *measured* (here, now), *recorded* (by us, on another machine), *published* (by others), or *modelled* (computed). Words that you do not know are in the [glossary](#Glossary) at the end.

# %% id="set-up"
# Set-up: run this cell first, and again after a kernel restart.
import sys

if "google.colab" in sys.modules:  # on Colab: add one small wheel and leave everything that Colab brings as it is
    # %pip install --no-deps {{wheel}}
    pass

import dataclasses
import math
import statistics

import pandas
import torch
from IPython.display import Markdown
from torch.utils.benchmark import Timer

from labkit import bench, landscape, machines, models, notebook
from labkit.bench.statistics import median_interval
from labkit.bench.virtual import VirtualDevice
from labkit.checks import lab1 as checks
from labkit.checks.lab1 import library
from labkit.graph.workloads import workload
from labkit.machines.reading import reading
from labkit.machines.validation.systems import validated
from labkit.plots import sweeps
from labkit.plots import timing as plots
from labkit.plots.dots import over_truth
from labkit.plots.executions import time_by_cause
from labkit.plots.gaps import found_beside_predicted
from labkit.plots.mappings import mapping_pictures
from labkit.plots.memories import Level, amount, binary_amount, capacity_and_bandwidth
from labkit.widgets import explorer

notebook.start("lab1_accelerator_landscape", built_with="{{version}}")

# %% tags=["parameters"] id="parameters"
# Parameters: plain values; a headless run may replace them.
seed = 0  # of the virtual devices in the pictures
profile = "fast"  # "fast" or "full": how much is measured on this machine
device = "cpu"  # where the real measurements run: "cpu", "cuda", ...

# %% [markdown] id="self-check-text"
# ## Before you start: do you have what the labs build on?
#
# Five questions, unscored and for you alone. The first cell shows them; answer in the second (as text, in quotes), run it, and follow the pointer of what is not right yet. Skip it if you like: nothing depends on it.

# %% id="self-check-questions"
Markdown(checks.questions())

# %% id="self-check"
checks.self_check({
    "closures": None,
    "views": None,
    "parameters": None,
    "matmul-flops": None,
    "gqa": None,
})

# %% [markdown] id="part-1"
# ## Part 1: Time something honestly
#
# ### 1.1 What does the clock see?
#
# **What you need to know.** An accelerator is *asynchronous*. When your program calls a kernel, the host puts a launch into a queue and runs on at once; the device takes kernels out of the queue, one after the other, in its own time. The host learns that they are done only when it *synchronizes*: waits until the queue is empty. In PyTorch a CUDA operator returns before its result exists, and `torch.cuda.synchronize()` waits for it.
#
# To learn timing you need a machine on which the truth is known. `VirtualDevice` is one: an accelerator with a *virtual clock*. It executes nothing, but it launches, queues, warms up, drifts and stumbles as real ones do, and the same calls give the same numbers on every computer. Its times are of kind *modelled*.
#
# ```python
# gpu = VirtualDevice.profile("ideal")          # asynchronous, and otherwise well behaved
# matmul = gpu.work("matmul", 120e-6)           # a kernel that takes 120 us; calling it launches it
# gpu.now()                                     # the host's clock, in seconds; it waits for nothing
# gpu.synchronize()                             # waits until every launched kernel has finished
# ```
#
# **Predict.** A launch takes the host 5 us, the kernel takes the device 120 us. What does a program read that looks at the clock, calls `matmul()` once, and looks at the clock again?

# %% id="predict-naive"
checks.predict(
    "naive timer",
    choices=["about 5 us", "about 120 us", "about 125 us"],
    answer=None,  # put one of the choices here, in quotes, and run the cell
)

# %% id="naive-timer"
gpu = VirtualDevice.profile("ideal", seed=seed)
matmul = gpu.work("matmul", 120e-6)

start = gpu.now()
matmul()
stop = gpu.now()
gpu.synchronize()  # so that the picture shows the whole kernel

naive_s, true_s = stop - start, gpu.steady_seconds(matmul)
title = f"The clock was read {naive_s * 1e6:.0f} us apart; the kernel ran for {true_s * 1e6:.0f} us"
plots.timeline(gpu, title=title).show()
Markdown(
    f"The second reading comes right after the launch, while the kernel has hardly begun: {naive_s * 1e6:.1f} us "
    f"were timed, {naive_s / true_s:.0%} of the kernel. Make the kernel ten times as long, and a timer like this "
    f"reads the same. {checks.recall('naive timer')}"
)

# %% [markdown] id="time-once-text"
# **Exercise `time-once`** (core, about {{minutes: time-once}} minutes). Time one call so that the number is the time of that call: all of it, and nothing else. What was in the queue before is not yours.
#
# <details><summary>Hint 1: where to look</summary>The picture has two lanes. Your two readings are taken in the upper one. At which two moments in the upper lane is it certain what the lower lane is doing?</details>
# <details><summary>Hint 2: a smaller case</summary>Suppose a 3 ms kernel is already running when your function is called. Draw both lanes by hand. What does your function wait for, and in whose time does the waiting go?</details>
# <details><summary>Hint 3: a way in</summary>A reading of the clock is trustworthy when the device is idle at that moment. There are two readings, and each of them needs that.</details>

# %% exercise="time-once" level="core" minutes=8
# exercise: time-once
def time_once(work, device):
    """Seconds that one call of `work` takes, from an idle device to an idle device.

    work: a function without arguments that launches something on `device`; it is called exactly once.
    device: has now() (the host's clock, seconds, float) and synchronize() (waits until the queue is empty).
    Returns a float, in seconds: the launch and the kernel, but nothing that was in the queue before.
    >>> gpu = VirtualDevice.profile("ideal")
    >>> f"{time_once(gpu.work('copy', 1e-3), gpu):.6f}"
    '0.001005'
    """
    ### BEGIN SOLUTION
    device.synchronize()
    start = device.now()
    work()
    device.synchronize()
    return device.now() - start
    ### END SOLUTION

# %% check="time-once" points=2
# check: time-once
checks.time_once(time_once)
### BEGIN HIDDEN TESTS
checks.time_once(time_once, seed=checks.grading_seed())
### END HIDDEN TESTS

# %% [markdown] id="time-once-look"
# **Look.** The same call, timed by three instruments, for kernels of four sizes. The third instrument is yours.

# %% id="time-once-picture"
if checks.ready("time-once"):
    no_wait, end_only, yours, truths = {}, {}, {}, {}
    for kernel_us in (20, 120, 600, 2400):
        case = f"{kernel_us} us kernel"
        gpu = VirtualDevice.profile("ideal", seed=seed)
        kernel = gpu.work("kernel", kernel_us * 1e-6)
        truths[case] = gpu.steady_seconds(kernel, calls=1)
        start = gpu.now()
        kernel()
        no_wait[case] = gpu.now() - start
        kernel()  # now two kernels are in the queue
        start = gpu.now()
        kernel()
        gpu.synchronize()
        end_only[case] = gpu.now() - start
        yours[case] = time_once(kernel, gpu)
    instruments = {"no synchronization": no_wait, "at the end only": end_only, "your time_once": yours}
    over_truth(instruments, truths, title="Only one of three instruments reads the whole call and nothing else").show()
    display(Markdown(
        f"Without synchronization every kernel reads {no_wait[case] * 1e6:.0f} us, one launch, so the longer the "
        f"kernel, the better it looks. Synchronized at the end only, the {case} reads {end_only[case] * 1e6:.0f} us: "
        f"two kernels that were still in the queue are in that time. Yours reads {yours[case] * 1e6:.0f} us."
    ))

# %% [markdown] id="warm"
# ### 1.2 When is a device warm?
#
# **What you need to know.** The first call of a piece of work is not like the others. A compiler runs, a kernel is loaded, memory is allocated, caches and branch predictors are empty, a clock frequency rises. Some of that is over after one call, some fades over many. Throwing away "the first three" is a habit, not a measurement: how many calls it takes is a property of the device and the work, and you can see it in the samples.
#
# One rule that needs no knowledge of the cause: the device counts as warm when the last few samples *agree*, that is, when the range of the last `window` samples is at most `tolerance` times their median. A rule like this can fail to be met, on a device that never settles; then a limit ends it, and the caller is told.
#
# **Predict.** The device `"cold"` compiles on the first call, and after that its excess time shrinks by the same share on every call. For the kernel below, how many calls does it take until five samples in a row agree within 2 %?

# %% id="predict-warm"
checks.predict("warm after", choices=["2 to 5", "6 to 14", "15 to 29", "30 or more"], answer=None)

# %% id="cold-samples"
cold = VirtualDevice.profile("cold", seed=seed)
conv = cold.work("conv", 300e-6)
cold_samples = []
for _ in range(40):
    cold.synchronize()
    start = cold.now()
    conv()
    cold.synchronize()
    cold_samples.append(cold.now() - start)

plots.samples(
    {"cold device": cold_samples},
    truth=cold.steady_seconds(conv, calls=1),
    kind="modelled",
    title=f"The first call takes {cold_samples[0] / cold_samples[-1]:.0f} times as long as the last",
).show()
us = [sample * 1e6 for sample in cold_samples]
Markdown(
    f"The first call reads {us[0] / 1e3:.1f} ms (it compiles), the second {us[1]:.0f} us, the tenth {us[9]:.0f} us, "
    f"the fortieth {us[39]:.0f} us. A mean over all forty would report {statistics.fmean(us):.0f} us, "
    "a time that no call ever took."
)

# %% [markdown] id="warm-up-text"
# **Exercise `warm-up`** (stretch, about {{minutes: warm-up}} minutes). Call the work, timing every call, until the last `window` samples agree or `limit` calls have been made. Report how many calls it took and whether they agreed. You may use your `time_once`.
#
# <details><summary>Hint 1: where to look</summary>The rule speaks about the newest samples only. What do you have to remember from call to call, and from which call on can the rule be tested at all?</details>
# <details><summary>Hint 2: a smaller case</summary>Samples 9, 3, 1.01, 1.00, 1.00 with window 3 and tolerance 0.02: after which call does the rule hold for the first time? What would a rule say that looks only at the last two?</details>
# <details><summary>Hint 3: a way in</summary>A loop with two ways out. One is the rule, tested right after a new sample arrived; the other is the count. What you return differs between the two ways out.</details>

# %% exercise="warm-up" level="stretch" minutes=11
# exercise: warm-up
def warm_up(work, device, window=5, tolerance=0.05, limit=100):
    """Calls `work` until its time is steady: until the last `window` samples agree within `tolerance`.

    work, device: as in time_once. Every call is timed from an idle device to an idle device.
    window: number of newest samples that have to agree, at least 2.
    tolerance: they agree when max - min <= tolerance * median of the window.
    limit: largest number of calls to make, at least `window`.
    Returns {"calls": int, calls made; "stable": bool, whether the last window agreed}.
    >>> gpu = VirtualDevice(first_call_s=0.1)
    >>> warm_up(gpu.work("conv", 1e-3), gpu, window=4, tolerance=0.02, limit=50)
    {'calls': 5, 'stable': True}
    """
    ### BEGIN SOLUTION
    samples = []
    while len(samples) < limit:
        samples.append(time_once(work, device))
        recent = samples[-window:]
        spread = max(recent) - min(recent)
        if len(recent) == window and spread <= tolerance * statistics.median(recent):
            return {"calls": len(samples), "stable": True}
    return {"calls": len(samples), "stable": False}
    ### END SOLUTION

# %% check="warm-up" points=2
# check: warm-up
checks.warm_up(warm_up)
### BEGIN HIDDEN TESTS
checks.warm_up(warm_up, seed=checks.grading_seed())
### END HIDDEN TESTS

# %% [markdown] id="warm-up-look"
# **Look.** Your rule on the device from above, with four tolerances.

# %% id="warm-up-picture"
if checks.ready("time-once", "warm-up"):
    remaining = {}
    stops = {}
    for tolerance in (0.2, 0.05, 0.02, 0.005):
        cold = VirtualDevice.profile("cold", seed=seed)
        conv = cold.work("conv", 300e-6)
        stops[tolerance] = warm_up(conv, cold, window=5, tolerance=tolerance, limit=100)["calls"]
        remaining[f"tolerance {tolerance:.1%}: warm after {stops[tolerance]} calls"] = time_once(conv, cold)
    truth = cold.steady_seconds(conv, calls=1)
    title = "The next call after the warm-up: a tighter rule leaves less of the start"
    plots.bars(remaining, truth=truth, kinds="modelled", title=title).show()
    left = {tolerance: value / truth - 1 for tolerance, value in zip(stops, remaining.values())}
    display(Markdown(
        f"At 2 % the rule is met after {stops[0.02]} calls. It bounds the change inside the window, not the distance "
        f"from the truth: the next call is still {left[0.02]:.1%} too slow at 2 %, and {left[0.2]:.0%} at 20 %. "
        f"{checks.recall('warm after')}"
    ))

# %% [markdown] id="samples"
# ### 1.3 One sample, the mean, the clock and the threads
#
# **What you need to know.** Four more things stand between a synchronized, warm call and a number:
#
# * *One sample* is a draw from a distribution. You cannot tell from it how wide the distribution is.
# * *Outliers*: another process gets the device, a page is faulted in. They make calls slower, never faster, so they pull a **mean** up without bound. The **median** ignores how slow the slow ones were.
# * *The clock ticks.* When a call lasts less than a hundred ticks, rounding is over a percent of the number; at one or two ticks it is most of it. Time a **block** of calls between two readings and divide.
# * *Threads*: a CPU operator runs on as many threads as the library was told. `torch.utils.benchmark.Timer` sets **one** unless you pass `num_threads`, whatever your program uses.
#
# **Predict.** On the device `"noisy"` about one call in fifteen takes eight times as long. You take 60 samples. Which of these is nearest to the true time?

# %% id="predict-mean"
checks.predict("best summary", choices=["the first sample", "the mean", "the median", "the minimum"], answer=None)

# %% id="noisy-samples"
noisy = VirtualDevice.profile("noisy", seed=seed)
softmax = noisy.work("softmax", 200e-6)
noisy_samples = []
for _ in range(60):
    noisy.synchronize()
    start = noisy.now()
    softmax()
    noisy.synchronize()
    noisy_samples.append(noisy.now() - start)

truth = noisy.steady_seconds(softmax, calls=1)
middle, average = statistics.median(noisy_samples), statistics.fmean(noisy_samples)
slow = sum(sample > 3 * truth for sample in noisy_samples)
summaries = {"mean": average, "median": middle, "minimum": min(noisy_samples), "first sample": noisy_samples[0]}
errors = sorted((abs(value / truth - 1), name) for name, value in summaries.items())
plots.samples(
    {"noisy device": noisy_samples},
    truth=truth,
    mark={"mean": average, "median": middle},
    kind="modelled",
    title=f"{slow} of {len(noisy_samples)} calls are slow: the mean moves by {average / truth - 1:.0%}, the median by {abs(middle / truth - 1):.1%}",
).show()
Markdown(
    "Relative error: " + ", ".join(f"{name} {error:.1%}" for error, name in errors) + ". "
    "Where times vary both ways the minimum is on the low side, the first sample is as good as your luck, "
    f"and the mean averages two situations and describes neither. {checks.recall('best summary')}"
)

# %% id="hidden-threads"
default_timer = Timer("torch.mm(a, a)", globals={"a": torch.ones(8, 8), "torch": torch}).timeit(10)
eight_cores = VirtualDevice.profile("ideal", threads=8)
mm = eight_cores.work("matmul", 4e-3, parallel_fraction=0.95)
by_threads = {}
for n in (1, 2, 4, 8):
    eight_cores.set_num_threads(n)
    by_threads[f"{n} thread" + ("s" if n > 1 else "")] = eight_cores.steady_seconds(mm)

title = "One kernel, one device, and the answer depends on a setting nobody mentioned"
plots.bars(by_threads, kinds="modelled", title=title).show()
Markdown(
    f"This PyTorch runs operators on {torch.get_num_threads()} threads here, and a `Timer` without `num_threads` "
    f"runs on {default_timer.num_threads}. On the virtual device with eight cores that hidden setting is a factor "
    f"{by_threads['1 thread'] / by_threads['8 threads']:.1f}."
)

# %% [markdown] id="measure-text"
# **Exercise `measure`** (core, about {{minutes: measure}} minutes). Put it together. On the threads that were asked for: warm up, find how many calls a block needs, take samples, summarize. For the warm-up call `library.warm_up(work, device)`, which follows the rule of 1.2, or your own `warm_up`; it may report that the device never became steady, and then you measure all the same.
#
# <details><summary>Hint 1: where to look</summary>There are four steps, and each of them has to run on the requested number of threads. Which one is left for after the last step, and what if the work raises an error in the middle?</details>
# <details><summary>Hint 2: a smaller case</summary>The clock ticks every 10 us, a call takes 15 us. What can a block of one call read? Of two? Of a hundred? Which of them, divided by its calls, is within one percent?</details>
# <details><summary>Hint 3: a way in</summary>Write a small function that times a block of n calls, with one wait before and one after, not n. Use it twice: to find n, starting from one and doubling, and then for every sample.</details>

# %% exercise="measure" level="core" minutes=21
# exercise: measure
def measure(work, device, threads=1, min_samples=25, block_s=1e-4):
    """Median seconds per call of `work`, with everything that a reader needs to trust it.

    work: a function without arguments. device: as in time_once, and num_threads (int) and set_num_threads(n).
    threads: number of threads that everything here runs on; the device's own setting is restored at the end.
    min_samples: how many samples to take at least, after a warm-up.
    block_s: a sample is one block of calls; double the calls, from 1, until a block lasts at least this many seconds.
    Returns {"median": float, seconds per call; "samples": list of float, all samples, each the seconds per call
    of one block; "calls_per_sample": int, calls in a block; "threads": int}.
    >>> gpu = VirtualDevice.profile("ideal")
    >>> found = measure(gpu.work("conv", 2e-3), gpu)
    >>> f"{found['median']:.6f}", len(found["samples"]) >= 25, found["calls_per_sample"], found["threads"]
    ('0.002005', True, 1, 1)
    """
    ### BEGIN SOLUTION
    def time_block(calls):
        device.synchronize()
        start = device.now()
        for _ in range(calls):
            work()
        device.synchronize()
        return device.now() - start

    threads_before = device.num_threads
    device.set_num_threads(threads)
    try:
        library.warm_up(work, device)
        calls = 1
        while time_block(calls) < block_s:
            calls *= 2
        samples = [time_block(calls) / calls for _ in range(min_samples)]
    finally:
        device.set_num_threads(threads_before)
    return {"median": statistics.median(samples), "samples": samples, "calls_per_sample": calls, "threads": threads}
    ### END SOLUTION

# %% check="measure" points=3
# check: measure
checks.measure(measure)
### BEGIN HIDDEN TESTS
checks.measure(measure, seed=checks.grading_seed())
### END HIDDEN TESTS

# %% [markdown] id="measure-look"
# **Look.** First where the truth is known: the naive timer (clock, call, clock, once) and your harness on every virtual device. Then on this machine, where it is not.

# %% id="measure-virtual"
if checks.ready("measure"):
    naive, yours, truths = {}, {}, {}
    for name in ("ideal", "cold", "noisy", "drifting", "realistic"):
        gpu = VirtualDevice.profile(name, seed=seed)
        kernel = gpu.work("kernel", 500e-6)
        start = gpu.now()
        kernel()
        naive[name] = gpu.now() - start
        gpu = VirtualDevice.profile(name, seed=seed)
        kernel = gpu.work("kernel", 500e-6)
        found = measure(kernel, gpu, threads=1)
        gpu.set_num_threads(1)
        yours[name], truths[name] = found["median"], gpu.steady_seconds(kernel, calls=found["calls_per_sample"])
    off = {name: abs(yours[name] / truths[name] - 1) for name in yours}
    worst = max(off, key=off.get)
    title = "The naive timer is wrong on every device, and not in one direction"
    over_truth({"clock, call, clock": naive, "your measure": yours}, truths, title=title).show()
    display(Markdown(
        f"The kernel takes 500 us on all five. The naive timer reads from {min(naive.values()) * 1e6:.0f} us "
        f"(a launch) to {max(naive.values()) * 1e3:.0f} ms (a compilation). Your harness is off by at most "
        f"{off[worst]:.1%}, on `{worst}`. A device that drifts has no single true time: there your median is right "
        "about the moment in which it was taken."
    ))

# %% id="measure-here"
if checks.ready("measure"):
    here = bench.get_device(device)
    size = 256 if profile == "fast" else 1024
    left = torch.ones(size, size, device=device)
    cores = torch.get_num_threads()
    mine = {n: measure(lambda: left @ left, here, threads=n, block_s=2e-3) for n in sorted({1, cores})}
    theirs = bench.measure(lambda: left @ left, device=device, threads=cores, dtype="float32", label=f"matmul {size}")
    rows = {f"yours, {n} thread" + ("s" if n > 1 else ""): found["median"] for n, found in mine.items()}
    rows[f"labkit.bench.measure, {cores} threads"] = theirs.median
    title = f"A {size} x {size} float32 matmul on this machine"
    plots.bars(rows, kinds="measured", title=title).show()
    display(theirs)
    display(Markdown(
        f"Measured here, now: your harness says {mine[cores]['median'] * 1e6:.1f} us on {cores} threads and "
        f"{mine[1]['median'] * 1e6:.1f} us on one, the library's says {theirs.median * 1e6:.1f} us on {cores}. "
        "Nobody knows the truth on this machine; two instruments that were built apart and agree are the best evidence "
        "there is. If they disagree by much, something else was using the machine: run the cell again."
    ))

# %% [markdown] id="comparing"
# ### 1.4 Is A faster than B?
#
# **What you need to know.** A chip that works gets warm, and a warm chip lowers its clock. A laptop on battery, a shared server, a phone: their speed *drifts* while you measure. If you time A first and B afterwards, the drift goes into the ratio, and no number of samples takes it out again: it is a bias, not noise.
#
# *Interleave*: in every round time both, one right after the other, and make the ratio inside the round. What drifts slowly is nearly the same for both and cancels. What is left is the order inside a round, so let the order alternate: a b, b a, a b, ... Then summarize the ratios by their median, and say how sure you are: `median_interval(ratios)` gives a 95 % confidence interval of the median (`.low`, `.high`). It assumes nothing about the shape of the distribution; it does assume that the samples are independent draws from one.
#
# **Predict.** A device slows down by 1.2 % with every kernel that it runs. You time the *same* kernel 30 times as A and then 30 times as B. What is the ratio, time of A over time of B?

# %% id="predict-drift"
checks.predict("same kernel", choices=["about 1.0", "about 0.9", "about 0.7", "about 0.3"], answer=None)

# %% id="drift-picture"
hot = VirtualDevice(drift_per_s=24.0, drift_limit=100.0, seed=seed)
same = hot.work("same kernel", 500e-6)
blocked = {"A (first)": [], "B (afterwards)": []}
for label in blocked:
    for _ in range(30):
        hot.synchronize()
        start = hot.now()
        same()
        hot.synchronize()
        blocked[label].append(hot.now() - start)

blocked_ratio = statistics.median(blocked["A (first)"]) / statistics.median(blocked["B (afterwards)"])
plots.samples(
    blocked,
    truth=hot.steady_seconds(same, calls=1),
    kind="modelled",
    title=f"One kernel against itself: A / B = {blocked_ratio:.2f}",
).show()
Markdown(
    "Both series are the same kernel. Thirty honest samples each, medians, no outliers, and the answer is "
    f"{blocked_ratio:.2f}: \"A is {1 / blocked_ratio - 1:.0%} faster\". {checks.recall('same kernel')}"
)

# %% [markdown] id="compare-text"
# **Exercise `compare`** (stretch, about {{minutes: compare}} minutes). Interleave. Each round gives one ratio.
#
# <details><summary>Hint 1: where to look</summary>Which of the two is measured on the warmer device in a round? Is it always the same one?</details>
# <details><summary>Hint 2: a smaller case</summary>Two equal kernels of 100 us; each call makes the next one 1 us slower. Write down the four samples of two rounds, once in the order a b, a b and once in the order a b, b a. What are the ratios?</details>
# <details><summary>Hint 3: a way in</summary>Warm both up before the first round (`library.warm_up` does). Keep one list of ratios; whether a round is even or odd decides who goes first, not how the ratio is formed.</details>

# %% exercise="compare" level="stretch" minutes=16
# exercise: compare
def compare(a, b, device, rounds=20):
    """Time of `a` over time of `b`, from interleaved rounds.

    a, b: functions without arguments that launch something on `device` (as in time_once); both are warmed up first.
    rounds: number of rounds, at least 6; in each, both are timed once, one right after the other, in alternating order.
    Returns {"ratio": float, median of the ratios, above 1 when a takes longer; "low", "high": float, the ends of
    median_interval(ratios); "ratios": list of float, time of a over time of b in each round, in order}.
    >>> gpu = VirtualDevice.profile("ideal")
    >>> found = compare(gpu.work("old", 3e-3), gpu.work("new", 1.5e-3), gpu)
    >>> f"{found['ratio']:.3f}", found["low"] <= found["ratio"] <= found["high"], len(found["ratios"])
    ('1.997', True, 20)
    """
    ### BEGIN SOLUTION
    library.warm_up(a, device)
    library.warm_up(b, device)
    ratios = []
    for number in range(rounds):
        if number % 2 == 0:
            seconds_a = time_once(a, device)
            seconds_b = time_once(b, device)
        else:
            seconds_b = time_once(b, device)
            seconds_a = time_once(a, device)
        ratios.append(seconds_a / seconds_b)
    interval = median_interval(ratios)
    return {"ratio": statistics.median(ratios), "low": interval.low, "high": interval.high, "ratios": ratios}
    ### END SOLUTION

# %% check="compare" points=3
# check: compare
checks.compare(compare)
### BEGIN HIDDEN TESTS
checks.compare(compare, seed=checks.grading_seed())
### END HIDDEN TESTS

# %% [markdown] id="compare-look"
# **Look.** The same device and the same kernel against itself once more, by your `compare`; then a real question on this machine.

# %% id="compare-picture"
if checks.ready("time-once", "compare"):
    hot = VirtualDevice(drift_per_s=24.0, drift_limit=100.0, seed=seed)
    same = hot.work("same kernel", 500e-6)
    fair = compare(same, same, hot, rounds=30)
    plots.bars(
        {"A first, B afterwards": blocked_ratio, "interleaved, your compare": fair["ratio"]},
        truth=1.0, unit="", kinds="modelled", quantity="time of A over time of B",
        title="Interleaved, the drift cancels",
    ).show()
    display(Markdown(
        f"Interleaved, the kernel takes {fair['ratio']:.4f} times as long as itself, interval "
        f"[{fair['low']:.4f}, {fair['high']:.4f}]. The device slowed down by more than a factor "
        f"{1 / blocked_ratio:.1f} while this was measured."
    ))

# %% id="compare-here"
if checks.ready("time-once", "compare"):
    rows = 256 if profile == "fast" else 2048
    x = torch.ones(rows, rows, device=device)
    answer_here = compare(lambda: (x @ x).relu(), lambda: x @ x, bench.get_device(device), rounds=30)
    low, high = answer_here["low"], answer_here["high"]
    verdict = "the interval includes 1: no difference shown" if low <= 1 <= high else "the interval excludes 1"
    display(Markdown(
        f"Measured here, now: a {rows} x {rows} matmul with a ReLU after it takes {answer_here['ratio']:.3f} times as "
        f"long as the matmul alone, interval [{low:.3f}, {high:.3f}]; {verdict}. The ReLU does {1 / (2 * rows):.2%} of the "
        "arithmetic. Whether it costs more than that is a question of bytes, and of part 2."
    ))

# %% [markdown] id="like-with-like"
# ### 1.5 Like with like
#
# **What you need to know.** A ratio of two correct numbers can still be meaningless. "The GPU is 40 times faster" may compare float32 on one thread of a CPU with float16 on a GPU; then two of the three factors in it are settings. Conditions that have to agree before a ratio says something about the *thing compared*: the device, the dtype, the thread count, and the kind of number (a measurement against a data sheet is not a speed-up). A condition that nobody wrote down does not agree with anything.
#
# If the conditions differ because they are what you compare, that is fine: say so.

# %% id="dtype-mismatch"
def seconds(threads, dtype):
    """True time of one matmul on the virtual device with eight cores: the same device every time."""
    chip = VirtualDevice(cores=8, threads=threads)
    times = {"float32": 8e-3, "float16": 4e-3}
    return chip.steady_seconds(chip.work("matmul", times, dtype=dtype, parallel_fraction=0.95))


baseline = seconds(threads=1, dtype="float32")
advertised = baseline / seconds(threads=8, dtype="float16")
same_dtype = baseline / seconds(threads=8, dtype="float32")
like = baseline / seconds(threads=1, dtype="float32")
speed_ups = {
    "float32 on 1 thread against float16 on 8": advertised,
    "the same dtype": same_dtype,
    "the same dtype and threads": like,
}
plots.bars(
    speed_ups,
    truth=1.0, unit="", kinds="modelled", quantity="speed-up",
    title=f"A device against itself, and a speed-up of {advertised:.0f}",
).show()
Markdown(
    f"There is only one device in this comparison. The dtype contributes a factor {advertised / same_dtype:.1f}, "
    f"the hidden thread count {same_dtype / like:.1f}, and the device {like:.1f}."
)

# %% [markdown] id="differences-text"
# **Exercise `differences`** (stretch, about {{minutes: differences}} minutes). Before a ratio is formed: in which conditions do two records differ?
#
# <details><summary>Hint 1: where to look</summary>The records are dicts that other people wrote. What can be missing, and what can be written in two ways?</details>
# <details><summary>Hint 2: a smaller case</summary>Neither record says how many threads were used. Are the thread counts equal?</details>
# <details><summary>Hint 3: a way in</summary>One loop over the names of the four conditions in alphabetical order. Bring each side to a common form first; only then compare.</details>

# %% exercise="differences" level="stretch" minutes=14
# exercise: differences
def differences(first, second):
    """Names of the conditions in which two records of a measurement differ.

    first, second: dicts that may hold "device", "dtype", "kind" (str) and "threads" (int). Other keys are no conditions.
    A condition that is missing or None on either side counts as different, even when it is missing on both.
    "torch.float32" and "float32" are the same dtype, and so for every dtype.
    Returns a list of the names, in alphabetical order.
    >>> differences({"device": "cpu", "dtype": "float32", "kind": "measured", "threads": 1},
    ...             {"device": "cpu", "dtype": "float16", "kind": "measured", "threads": 8})
    ['dtype', 'threads']
    """
    ### BEGIN SOLUTION
    found = []
    for name in ("device", "dtype", "kind", "threads"):
        values = []
        for record in (first, second):
            value = record.get(name)
            if name == "dtype" and value is not None:
                value = value.removeprefix("torch.")
            values.append(value)
        if None in values or values[0] != values[1]:
            found.append(name)
    return found
    ### END SOLUTION

# %% check="differences" points=2
# check: differences
checks.differences(differences)
### BEGIN HIDDEN TESTS
checks.differences(differences, seed=checks.grading_seed())
### END HIDDEN TESTS

# %% [markdown] id="ratio-look"
# **Look.** The library's numbers carry their conditions and refuse in the same way. From here on the course uses `labkit.bench`: it does what yours does, on the same `torch.utils.benchmark` that PyTorch's own developers use.

# %% id="library-refuses"
gpu = VirtualDevice.profile("ideal")
kernel = gpu.work("matmul", {"float32": 8e-3, "float16": 4e-3}, parallel_fraction=0.95)
slow = bench.measure(kernel, device=gpu, threads=1)
fast = bench.measure(kernel.to("float16"), device=gpu, threads=8)
try:
    bench.ratio(slow, fast)
except bench.IncomparableError as refusal:
    print(refusal)
print(f"Said so: {bench.ratio(slow, fast, across=('dtype', 'threads')):.2f} times (modelled), across dtype and threads.")

# %% [markdown] id="part-2"
# ## Part 2: Something on this machine
#
# ### 2.1 Count before you measure
#
# **What you need to know.** Three operators stand for most of what a neural network does: a *matrix product*, an *elementwise* operator (an activation, a residual addition), and a *reduction* (a sum, a maximum, the mean inside a normalization). Two counts bound how fast each of them can be on any machine:
#
# * **FLOPs**, floating-point operations. A multiplication followed by an addition is one instruction on most hardware (a fused multiply-add, FMA) and counts as two operations.
# * **Bytes** that cross the border of the memory in question. However clever the code, every operand is read at least once and the result is written once: the *compulsory traffic*. Caches that are too small only add to it.
#
# Their quotient, FLOP per byte, is the **arithmetic intensity**. It is a property of the operator and its shapes; no machine is mentioned in it.
#
# **Predict.** All dimensions of a matrix product, a multiplication and a sum are doubled. Whose arithmetic intensity grows?

# %% id="predict-intensity"
checks.predict(
    "intensity grows",
    choices=["that of all three", "that of the matrix product", "that of the product and the sum", "that of none"],
    answer=None,
)

# %% [markdown] id="operator-cost-text"
# **Exercise `operator-cost`** (core, about {{minutes: operator-cost}} minutes). Count both for the three operators, from shapes alone.
#
# <details><summary>Hint 1: where to look</summary>Everything follows from three shapes: those of the operands and that of the result. What is the shape of the result in each of the three cases?</details>
# <details><summary>Hint 2: a smaller case</summary>Write out [2, 3] times [3, 4] on paper. How many multiplications does one element of the result take, and how many elements are there? Then stretch a [3] over a [2, 3]: how often is each of the three numbers read?</details>
# <details><summary>Hint 3: a way in</summary>Give each operator its own branch that finds two things, the shape of the result and the FLOPs. The bytes then come out of one line for all of them. Shapes that broadcast are aligned at their last dimension; `torch.broadcast_shapes` knows the rule.</details>

# %% exercise="operator-cost" level="core" minutes=15
# exercise: operator-cost
def operator_cost(op, shapes, itemsize):
    """FLOPs and bytes of one operator, when every operand and the result cross the border of memory once.

    op: "matmul", shapes [..., m, k] and [..., k, n] with equal leading dimensions (or none): one product for each of these;
        "multiply", elementwise, two shapes that broadcast; an operand that is broadcast is read once, not once for each copy;
        "sum", one shape: the sum of all elements, a result with the shape ().
    shapes: list of tuples of ints; a dimension may be 0.   itemsize: bytes of one element, operands and result alike.
    Returns {"flops": int, "bytes": int}. A multiplication or an addition is one FLOP. By convention an element of a product over k
    counts k of each, 2 k, though the first addition is to nothing; a sum of n elements counts its n - 1, and a sum of none 0.
    >>> operator_cost("matmul", [(2, 3), (3, 4)], 4)
    {'flops': 48, 'bytes': 104}
    """
    ### BEGIN SOLUTION
    if op == "matmul":
        left, right = shapes
        result = (*left[:-1], right[-1])
        flops = 2 * math.prod(result) * left[-1]
    elif op == "multiply":
        result = tuple(torch.broadcast_shapes(*shapes))
        flops = math.prod(result)
    else:
        result = ()
        flops = max(math.prod(shapes[0]) - 1, 0)
    elements = sum(math.prod(shape) for shape in (*shapes, result))
    return {"flops": flops, "bytes": elements * itemsize}
    ### END SOLUTION

# %% check="operator-cost" points=3
# check: operator-cost
checks.operator_cost(operator_cost)
### BEGIN HIDDEN TESTS
checks.operator_cost(operator_cost, seed=checks.grading_seed())
### END HIDDEN TESTS

# %% id="intensity-picture"
if checks.ready("operator-cost"):
    def intensity(op, *shapes):
        cost = operator_cost(op, list(shapes), itemsize=4)
        return cost["flops"] / cost["bytes"]

    intensities = {f"matmul of {n} x {n}": intensity("matmul", (n, n), (n, n)) for n in (64, 512, 4096)}
    intensities |= {
        "multiply, 64 x 64": intensity("multiply", (64, 64), (64, 64)),
        "matmul of 1 x 4096 with 4096 x 4096": intensity("matmul", (1, 4096), (4096, 4096)),
        "multiply, 4096 x 4096": intensity("multiply", (4096, 4096), (4096, 4096)),
        "sum, 4096 x 4096": intensity("sum", (4096, 4096)),
    }
    title = "The intensity of a matrix product grows with its size, unless one dimension stays small"
    plots.bars(
        intensities, unit="FLOP/byte", kinds="modelled", quantity="arithmetic intensity, float32", title=title
    ).show()
    display(Markdown(
        f"A square product of 4096 does {intensities['matmul of 4096 x 4096']:.0f} FLOP for every byte, a multiplication "
        f"{intensities['multiply, 4096 x 4096']:.3f}, as it did at 64: of the three only the product gains by size. The product of one row does "
        f"{intensities['matmul of 1 x 4096 with 4096 x 4096']:.2f}: it is what one sequence needs for its next token, "
        f"and you will meet it again in part 3. {checks.recall('intensity grows')}"
    ))

# %% [markdown] id="curve"
# ### 2.2 The memory under the curve
#
# **What you need to know.** A CPU keeps what it used last in *caches*: small memories near the core, each level larger and slower than the one before. They are *transparent*: no instruction names them, and a program that fits into one simply runs faster. So they can be measured from outside. Time one operator over growing working sets, divide the bytes by the time, and look where the curve falls.
#
# The sweep below times a multiplication, a sum and a matrix product on this machine, at several sizes, dtypes and thread counts. It is kept in a file, and goes on where it was interrupted. Beside it stands the same sweep *recorded* on another machine.
#
# **Predict.** Doubling the threads from one to two makes what faster by nearly two?

# %% id="predict-threads"
checks.predict(
    "two threads",
    choices=["everything", "large matrix products", "large multiplications", "small multiplications"],
    answer=None,
)

# %% id="sweep-here"
operators_here = bench.operator_sweep(profile, path="lab1_operators.json")
operators_there = bench.recorded("cpu-epyc-2cores")
doubtful = sum(bool(measurement.caveats) for _, measurement in operators_here)
print(f"Here: {operators_here.state}; {doubtful} points carry a caveat (`operators_here` in a cell shows every point).")
print(f"Recorded: {operators_there.machine}.")

# %% id="bandwidth-picture"
if checks.ready("operator-cost"):
    def curve(measured, op, dtype, threads, rate):
        """(working set in bytes, bytes or FLOPs per second, kind) of the points of a sweep."""
        points = []
        for point, measurement in measured:
            if (point["op"], point["dtype"], point["threads"]) == (op, dtype, threads):
                n, itemsize = point["n"], getattr(torch, dtype).itemsize
                shapes = {"matmul": [(n, n), (n, n)], "elementwise": [(n,), ()], "reduction": [(n,)]}[op]
                name = {"elementwise": "multiply", "reduction": "sum"}.get(op, op)
                cost = operator_cost(name, shapes, itemsize)
                size = n if op == "matmul" else cost["bytes"]
                points.append((size, cost[rate] / measurement.median, measurement.kind))
        return sorted(points)

    many = max(point["threads"] for point in operators_here.points)
    there = max(point["threads"] for point in operators_there.sweep.points)
    multiply_here = curve(operators_here, "elementwise", "float32", many, "bytes")
    best, last = max(rate for _, rate, _ in multiply_here), multiply_here[-1][1]
    falls = best > 1.5 * last
    sweeps.bandwidth_curve(
        {
            f"multiply, here, {many} threads": multiply_here,
            "multiply, here, 1 thread": curve(operators_here, "elementwise", "float32", 1, "bytes"),
            f"sum, here, {many} threads": curve(operators_here, "reduction", "float32", many, "bytes"),
            f"multiply, recorded machine, {there} threads": curve(
                operators_there.sweep, "elementwise", "float32", there, "bytes"
            ),
        },
        caches=bench.cache_sizes(),
        title=f"Past its last cache this machine moves {last / 1e9:.0f} GB/s, "
        + (f"inside it up to {best / 1e9:.0f}" if falls else "and no cache stands out"),
    ).show()
    display(Markdown(
        f"Measured here, now: the best multiplication moves {best / last:.1f} times as many bytes a second as the largest one. "
        "Small sizes are slow for another reason: the call itself takes some microseconds, whatever the size, and hides the first "
        "caches behind it; what you can read off is the last cache and the memory after it. "
        "Where the lines of one thread and of several meet, memory is the limit and not the cores."
    ))

# %% id="matmul-picture"
if checks.ready("operator-cost"):
    products = {
        f"{dtype}, {n} thread" + ("s" if n > 1 else "") + ", here": curve(operators_here, "matmul", dtype, n, "flops")
        for dtype in ("float32", "float64", "bfloat16")
        for n in sorted({1, many})
    }
    products = {label: points for label, points in products.items() if points}
    products["float32, recorded machine"] = curve(operators_there.sweep, "matmul", "float32", there, "flops")
    fastest = max(products, key=lambda label: max(rate for _, rate, _ in products[label]))
    single = max(rate for _, rate, _ in products["float32, 1 thread, here"])
    several = max(rate for _, rate, _ in products.get(f"float32, {many} threads, here", [(0, single, "")]))
    sweeps.throughput_curve(products, title=f"The same product at other dtypes and threads; fastest: {fastest}").show()
    one_thread = dict(point[:2] for point in curve(operators_here, "elementwise", "float32", 1, "bytes"))
    gains = [rate / one_thread[size] for size, rate, _ in multiply_here if size in one_thread]
    unhelped = "" if several > 1.3 * single else "Threads that do not help mean that this process has no second core to itself. "
    display(Markdown(
        f"Measured here, now: {many} threads bring the float32 product to {several / single:.2f} times one thread's speed, the largest "
        f"multiplication to {gains[-1]:.2f} times and the smallest to {gains[0]:.2f} times. {unhelped}"
        "A float64 number is twice as wide, so a vector register holds half as many of them. "
        "Whether bfloat16 is faster depends on whether this CPU has instructions for it; where it has none, it is converted "
        f"back and forth. {checks.recall('two threads')}"
    ))

# %% [markdown] id="memory-levels-text"
# **Exercise `memory-levels`** (stretch, about {{minutes: memory-levels}} minutes). Let a function read the curve: where does each level of memory end, and what bandwidth does it have?
#
# <details><summary>Hint 1: where to look</summary>The rule compares a new point with something that the level has shown so far. With what exactly, and is it the point just before?</details>
# <details><summary>Hint 2: a smaller case</summary>Bandwidths 50, 100, 90, 40, 42 and drop 0.75. Which point begins the second level? Would it, if 50 had come after 100?</details>
# <details><summary>Hint 3: a way in</summary>Collect the points of the current level. Before a point joins, test whether it belongs; if not, close the level and begin a new one with it. One level is still open when the points run out.</details>

# %% exercise="memory-levels" level="stretch" minutes=13
# exercise: memory-levels
def memory_levels(sizes, bandwidths, drop=0.75):
    """Levels of memory in a curve of bandwidth over working set.

    sizes: working sets in bytes, ascending, at least one.   bandwidths: bytes per second at each of them.
    A level goes on while the bandwidth is at least `drop` times the highest bandwidth that this level has shown so far; the first
    point below that begins the next level. A rise ends no level.
    Returns a list of {"last_size": int, the largest working set of the level; "bandwidth": float, the highest of the level},
    from the nearest level to the farthest. (The highest: points that are slow for another reason, such as a call that takes longer
    than its work, say nothing about a memory.)
    >>> memory_levels([4096, 8192, 16384, 32768], [100.0, 90.0, 40.0, 42.0])
    [{'last_size': 8192, 'bandwidth': 100.0}, {'last_size': 32768, 'bandwidth': 42.0}]
    """
    ### BEGIN SOLUTION
    levels, level = [], []

    def close():
        levels.append({"last_size": level[-1][0], "bandwidth": max(rate for _, rate in level)})

    for size, rate in zip(sizes, bandwidths):
        if level and rate < drop * max(earlier for _, earlier in level):
            close()
            level = []
        level.append((size, rate))
    close()
    return levels
    ### END SOLUTION

# %% check="memory-levels" points=2
# check: memory-levels
checks.memory_levels(memory_levels)
### BEGIN HIDDEN TESTS
checks.memory_levels(memory_levels, seed=checks.grading_seed())
### END HIDDEN TESTS

# %% id="memory-levels-picture"
if checks.ready("operator-cost", "memory-levels"):
    found_levels = memory_levels([size for size, _, _ in multiply_here], [rate for _, rate, _ in multiply_here])
    said = ", ".join(f"{name} {binary_amount(size)}" for name, size in bench.cache_sizes().items()) or "does not say"
    display(pandas.DataFrame([
        {"level ends at": binary_amount(level["last_size"]), "bandwidth, measured": amount(level["bandwidth"], "B/s")}
        for level in found_levels
    ]))
    display(Markdown(
        f"Your function finds {len(found_levels)} levels in the curve of the multiplication. The operating system says: {said}. "
        "They need not agree: two arrays share a cache with everything else, cores may share a level, and a virtual machine may "
        "see a cache that it has to share with strangers."
    ))

# %% [markdown] id="ceilings-text"
# ### 2.3 Two numbers for a machine
#
# **What you need to know.** For a first prediction a machine is two numbers: the **peak**, FLOP per second when every arithmetic unit works, and the **bandwidth** of the memory that the data comes from. Their quotient is the **ridge point**, in FLOP per byte: an operator with a lower intensity waits for memory (*memory-bound*), one with a higher intensity for arithmetic (*compute-bound*). A data sheet states both for a GPU. For the machine in front of you measure them: the best matrix product and the best copy, far outside the caches.

# %% id="ceilings-here"
cores = torch.get_num_threads()
roof_here = bench.ceilings(threads=cores, dtypes=("float32", "bfloat16"))
if device != "cpu":
    display(bench.ceilings(device=device, dtypes=("float32", "bfloat16")))
roof_here

# %% [markdown] id="part-3"
# ## Part 3: Why is a GPU faster?
#
# ### 3.1 Lanes, clock, bandwidth
#
# **What you need to know.** A CPU core spends its transistors on making *one* thread fast: it predicts branches, reorders instructions, and keeps large caches so that it seldom waits. It has lanes too, 8 or 16 float32 numbers in a vector register; a GPU has thousands. In its **SIMT** model (single instruction, multiple threads) a group of 32 threads, a *warp*, executes one instruction on 32 pieces of data; a streaming multiprocessor (SM) holds dozens of warps, and when one waits for memory it issues from another in the next cycle. Latency is not avoided, it is hidden behind other work, and that takes many thousands of threads with something to do.
#
# What this buys can be computed. The peak is the number of lanes times two operations (an FMA) times the clock. *Tensor cores*, units that multiply small matrices of 16-bit numbers, add a second and much higher peak for that dtype. And a memory that feeds so many lanes has to be wide: in data-centre cards stacked DRAM on the same package (HBM), with some twenty to a hundred times the bandwidth of a laptop's; smaller cards have GDDR.

# %% id="gpu-facts"
rows = []
for name in ("T4", "L4", "A100-80"):
    gpu = machines.spec(name)
    sms, clock = gpu["sm_count"].value, gpu["clock_boost"].si
    lanes = gpu.flops_per_s("float32") / (2 * clock * sms)
    rows.append({
        "machine": gpu.name, "SMs": sms, "float32 lanes per SM": round(lanes), "clock": f"{clock / 1e9:.2f} GHz",
        "float32 peak": amount(gpu.flops_per_s("float32"), "FLOP/s"), "float16 peak": amount(gpu.flops_per_s("float16"), "FLOP/s"),
        "bandwidth": amount(gpu.bandwidth_bytes_per_s(), "B/s"),
        "ridge float32": f"{gpu.ridge('float32'):.0f}", "ridge float16": f"{gpu.ridge('float16'):.0f}", "kind": "published",
    })
rows.append({
    "machine": f"this machine, {cores} threads", "SMs": "", "float32 lanes per SM": "", "clock": "",
    "float32 peak": amount(roof_here.flops_per_s("float32"), "FLOP/s"), "float16 peak": "",
    "bandwidth": amount(roof_here.bytes_per_s, "B/s"), "ridge float32": f"{roof_here.ridge('float32'):.0f}",
    "ridge float16": "", "kind": "measured",
})
display(pandas.DataFrame(rows))
a100 = machines.spec("A100-80")
peak_ratio = a100.flops_per_s("float32") / roof_here.flops_per_s("float32")
bandwidth_ratio = a100.bandwidth_bytes_per_s() / roof_here.bytes_per_s
Markdown(
    "Ridge points in FLOP per byte. Published peaks are what the units could do, measured ones what a program got out of them. "
    f"Beside this machine, the {a100.name} has {peak_ratio:.0f} times the float32 arithmetic and "
    f"{bandwidth_ratio:.0f} times the bandwidth."
)

# %% [markdown] id="predict-gap-text"
# **Predict.** A language model writes its next token, one sequence at a time (*decode*). How much faster is the A100 than this machine, both in the same dtype?

# %% id="predict-decode-gap"
checks.predict(
    "decode gap",
    choices=["by the ratio of the peaks", "by the ratio of the bandwidths", "by the product of both", "by the ratio of the clocks"],
    answer=None,
)

# %% [markdown] id="predict-gap-hints"
# **Exercise `predict-gap`** (core, about {{minutes: predict-gap}} minutes). From the cost of a piece of work and three numbers for each of two machines: how long does it take on either, what limits it there, and what is the ratio?
#
# <details><summary>Hint 1: where to look</summary>Three things can take time: arithmetic, moving bytes, and starting the work at all. Which of them can go on at the same time, and which cannot?</details>
# <details><summary>Hint 2: a smaller case</summary>A machine computes for 3 s and moves for 5 s, in small pieces, and fetches the next piece while it computes on this one. How long does it take in all? Now every call waits 1 s before it begins.</details>
# <details><summary>Hint 3: a way in</summary>Write the three terms of one machine into a dict by name; the time and the name of the limit both come out of it. Do that once, in a function of its own, and call it for both machines.</details>

# %% exercise="predict-gap" level="core" minutes=14
# exercise: predict-gap
def predict_gap(cost, slow, fast):
    """Time of one piece of work on two machines by the roofline and a launch, and how much faster the second is.

    cost: {"flops": int, "bytes": int}.   slow, fast: {"flops_per_s": float, "bytes_per_s": float, "launch_s": float} each.
    Arithmetic and movement overlap perfectly, so that the longer of the two decides; the launch comes before both.
    Returns {"slow_s": float, "fast_s": float, seconds on each machine; "gap": float, slow over fast; "limits": (str, str), for
    the slow and the fast machine the name of its largest term: "compute", "memory" or "launch"}.
    >>> one = {"flops_per_s": 1e9, "bytes_per_s": 1e9, "launch_s": 0.0}
    >>> ten = {"flops_per_s": 1e10, "bytes_per_s": 2e9, "launch_s": 0.5}
    >>> predict_gap({"flops": 10**9, "bytes": 3 * 10**9}, one, ten)
    {'slow_s': 3.0, 'fast_s': 2.0, 'gap': 1.5, 'limits': ('memory', 'memory')}
    """
    ### BEGIN SOLUTION
    def bound(machine):
        terms = {
            "compute": cost["flops"] / machine["flops_per_s"],
            "memory": cost["bytes"] / machine["bytes_per_s"],
            "launch": machine["launch_s"],
        }
        overlapped = max(terms["compute"], terms["memory"])
        return terms["launch"] + overlapped, max(terms, key=terms.get)

    slow_s, slow_limit = bound(slow)
    fast_s, fast_limit = bound(fast)
    return {"slow_s": slow_s, "fast_s": fast_s, "gap": slow_s / fast_s, "limits": (slow_limit, fast_limit)}
    ### END SOLUTION

# %% check="predict-gap" points=3
# check: predict-gap
checks.predict_gap(predict_gap)
### BEGIN HIDDEN TESTS
checks.predict_gap(predict_gap, seed=checks.grading_seed())
### END HIDDEN TESTS

# %% [markdown] id="phases"
# ### 3.2 The shared model, prefill and decode
#
# **What you need to know.** The model that this course follows through five systems is a *decoder*: a stack of blocks, each of them attention and a small network (MLP) whose results are added to what passes through; the *head* at the end turns a hidden state into a score for every word. It works in two phases. **Prefill** reads the whole prompt at once: every weight is used for many tokens. **Decode** writes one token at a time: every weight is read again for a single token, and so is the **KV cache**, the keys and values of all tokens before. `labkit.models` has the dimensions of published models as presets, and one model that ships trained: `tiny`, which sorts, adds and copies digits.

# %% id="meet-tiny"
from labkit.models import tasks

tiny = models.load("tiny")
prompts = ["S3141592=", "A047+085=", "C271828="]
for prompt in prompts:
    tokens = torch.tensor([tasks.encode(prompt)])
    written = models.generate(tiny, tokens, tasks.LONGEST_ANSWER, stop=tasks.STOP)[0, len(prompt):]
    print(f"{prompt:<12}{tasks.decode(written.tolist())}")
tasks.score(tiny, 200)

# %% [markdown] id="phase-cost-text"
# **Exercise `phase-cost`** (stretch, about {{minutes: phase-cost}} minutes). Count the FLOPs and bytes of one forward pass over `new_tokens` tokens a sequence, with `context` tokens in the cache already. The rest of this part uses the library's version, `models.phase_cost`, which refuses while yours is being checked.
#
# <details><summary>Hint 1: where to look</summary>Every weight matrix meets every new token once. Count the elements of the matrices of one block, and of the head that turns the last hidden state into a score for each word. Attention itself has no weights: what does it multiply?</details>
# <details><summary>Hint 2: a smaller case</summary>Three new tokens after two cached ones. How many keys does the first of them see, the second, the third? A query meets each key twice: once for the score, once to weight the value.</details>
# <details><summary>Hint 3: a way in</summary>Two numbers first: the elements of all matrices that a token passes through, and the keys that all new queries see together. FLOPs need both; bytes need the first, the rows of the embedding that are looked up, and the cache.</details>

# %% exercise="phase-cost" level="stretch" minutes=14
# exercise: phase-cost
def phase_cost(model, batch, new_tokens, context, itemsize):
    """FLOPs and bytes of one forward pass of a decoder.

    model: dict of ints: num_layers, hidden_size, intermediate_size, num_heads, num_kv_heads, head_dim, vocab_size.
    A block has the matrices q [hidden, heads * head_dim], k and v [hidden, kv_heads * head_dim], o [heads * head_dim, hidden] and
    three of [hidden, intermediate]; the head is [hidden, vocab] and is applied to every new token.
    batch: sequences.   new_tokens: of each sequence.   context: tokens of each sequence in the cache before.   itemsize: bytes.
    FLOPs: matrix products only, a multiplication and an addition being two; a query sees the keys up to its own position.
    Bytes: every matrix once, one row of the embedding [vocab, hidden] a new token, and the keys and values of the cache, those of
    the new tokens included, once each.
    Returns {"flops": int, "bytes": int}.
    >>> toy = {"num_layers": 1, "hidden_size": 4, "intermediate_size": 8, "num_heads": 2, "num_kv_heads": 1, "head_dim": 2,
    ...        "vocab_size": 10}
    >>> phase_cost(toy, batch=1, new_tokens=1, context=3, itemsize=2)
    {'flops': 432, 'bytes': 408}
    """
    ### BEGIN SOLUTION
    query = model["num_heads"] * model["head_dim"]
    key = model["num_kv_heads"] * model["head_dim"]
    attention = model["hidden_size"] * (query + key + key + query)
    mlp = 3 * model["hidden_size"] * model["intermediate_size"]
    matrices = model["num_layers"] * (attention + mlp) + model["hidden_size"] * model["vocab_size"]
    tokens = batch * new_tokens
    seen = batch * sum(context + position + 1 for position in range(new_tokens))
    flops = 2 * tokens * matrices + 2 * 2 * model["num_layers"] * query * seen
    cached = 2 * model["num_layers"] * key * batch * (context + new_tokens)
    elements = matrices + tokens * model["hidden_size"] + cached
    return {"flops": flops, "bytes": elements * itemsize}
    ### END SOLUTION

# %% check="phase-cost" points=3
# check: phase-cost
checks.phase_cost(phase_cost)
### BEGIN HIDDEN TESTS
checks.phase_cost(phase_cost, seed=checks.grading_seed())
### END HIDDEN TESTS

# %% [markdown] id="model-here-text"
# **Look.** Two models on this machine, in float32: `tiny`, which fits into a cache, and one with the dimensions of Qwen2.5-0.5B and random weights (time does not depend on their values; the `fast` profile takes four of its twenty-four layers). Each is predicted from your `predict_gap` with the two ceilings that you measured above.

# %% id="model-here"
layers = 4 if profile == "fast" else 24
qwen = dataclasses.replace(models.preset("qwen2.5-0.5b"), num_layers=layers, parameters=0)
context = 64


def phases(model, where, prompt_tokens=context):
    """Work of prefill and of one decode step on a device: {phase: (function, new tokens, context)}."""
    model = model.to(where).eval()
    tokens = torch.zeros(1, prompt_tokens, dtype=torch.int64, device=where)
    positions = torch.arange(prompt_tokens, device=where)
    cache = model.new_cache(1, prompt_tokens + 1)

    @torch.inference_mode()
    def prefill():
        model(tokens, positions, cache)

    @torch.inference_mode()
    def decode():
        model(tokens[:, :1], positions[-1:] + 1, cache)

    prefill()
    return {"prefill": (prefill, prompt_tokens, 0), "decode": (decode, 1, prompt_tokens)}


shared = {"tiny": tiny, f"Qwen2.5-0.5B, {layers} layers": models.Decoder(qwen)}
model_times, model_costs = {}, {}
for where in dict.fromkeys(["cpu", device]):
    for label, model in shared.items():
        for phase, (work, new_tokens, before) in phases(model, where).items():
            case = f"{label}, {phase}"
            model_costs[case] = models.phase_cost(model.config, 1, new_tokens, before, itemsize=4)
            model_times[where, case] = bench.measure(work, device=where, threads=cores, dtype="float32", label=case)
one_call = bench.measure(bench.operator("elementwise").make(1, "float32", "cpu"), threads=cores, dtype="float32")
host = {"flops_per_s": roof_here.flops_per_s("float32"), "bytes_per_s": roof_here.bytes_per_s, "launch_s": one_call.median}

# %% id="model-picture"
if checks.ready("predict-gap"):
    predicted_here = {case: predict_gap(cost, host, host) for case, cost in model_costs.items()}
    measured_here = {case: model_times["cpu", case].median for case in model_costs}
    over = {case: measured_here[case] / predicted_here[case]["slow_s"] for case in model_costs}
    large = f"Qwen2.5-0.5B, {layers} layers, decode"
    found_beside_predicted(
        {case: found["slow_s"] * 1e3 for case, found in predicted_here.items()},
        {"this machine": {case: (seconds * 1e3, "measured") for case, seconds in measured_here.items()}},
        title=f"Decode takes {over[large]:.1f} times its bound for the larger model, {over['tiny, decode']:.0f} times for tiny",
        quantity="milliseconds for one pass",
    ).show()
    calls = bench.count_operators(phases(tiny, "cpu")["decode"][0])
    display(Markdown(
        f"Measured here, now: decode of the larger model moves {amount(model_costs[large]['bytes'], 'B')} for every token; its bound is "
        f"set by {predicted_here[large]['limits'][0]}, and it takes {over[large]:.1f} times that. A product with a single row is harder to "
        "divide among threads than the copy that set the ceiling, and a bound is not a promise. "
        f"`tiny` moves {amount(model_costs['tiny, decode']['bytes'], 'B')}, which a cache holds, and its time is something else: the pass "
        f"calls {calls} operators one after the other, and each costs at least the {one_call.median * 1e6:.1f} us that a call on one "
        f"element takes here. That alone is {calls * one_call.median * 1e3:.2f} of its {measured_here['tiny, decode'] * 1e3:.2f} ms; "
        "the prediction counted one launch."
    ))

# %% [markdown] id="the-gap"
# ### 3.3 The gap, predicted and found
#
# **What you need to know.** A comparison is about machines only when the dtype is the same on both sides (part 1.5). Four kinds of work, three dtypes, each the same on both machines: a float32 matrix product; a float64 array times a number; prefill of GPT-2 Large in float32; a decode step of Llama-3.1-8B in bfloat16. A fifth, prefill of that model in bfloat16, is predicted only: no published time is at hand. The GPU's times are *published* by others for an A100, with their source: for cards with 40 and 80 GB, on SXM boards and as PCIe cards, which differ by some percent; the bounds are those of the 80 GB SXM card. This machine's are *measured* for the first two; the two language models are too large to wait for, so they are *modelled* from your ceilings, which 3.2 has just put to the test. If `device` is a GPU, its own column is measured.

# %% id="gap-work"
def gpt2_large(batch, tokens):
    """FLOPs and bytes of a forward pass: 36 blocks of width 1280, 20 heads of 64, a vocabulary of 50257 (Radford et al. 2019)."""
    width, rows = 1280, batch * tokens
    block = [
        ("matmul", [(rows, width), (width, 3 * width)]),
        ("matmul", [(batch, 20, tokens, 64), (batch, 20, 64, tokens)]),
        ("matmul", [(batch, 20, tokens, tokens), (batch, 20, tokens, 64)]),
        ("matmul", [(rows, width), (width, width)]),
        ("matmul", [(rows, width), (width, 4 * width)]),
        ("matmul", [(rows, 4 * width), (4 * width, width)]),
    ]
    costs = [operator_cost(op, shapes, 4) for op, shapes in block] * 36
    costs.append(operator_cost("matmul", [(rows, width), (width, 50257)], 4))
    return {name: sum(cost[name] for cost in costs) for name in ("flops", "bytes")}


product_size, scale_size = 2048, 2**24
product = bench.operator("matmul").make(product_size, "float32", "cpu")
scale = bench.operator("elementwise").make(scale_size, "float64", "cpu")
product_here = bench.measure(product, threads=cores, dtype="float32", label="matmul 2048")
scale_here = bench.measure(scale, threads=cores, dtype="float64", label="scale")

small_kernel = machines.published("GPU-A10080GB-smallkernel-stream")
card = {
    "flops_per_s": a100.flops_per_s("float32"),
    "bytes_per_s": a100.bandwidth_bytes_per_s(),
    "launch_s": 16 * 4096 / (small_kernel.value * 1e9),  # 4096 doubles read and written, back to back: the launch is all there is
}
print(f"Launch to launch on the A100, published: {card['launch_s'] * 1e6:.1f} us ({small_kernel.source}).")

# %% id="gap-picture"
if checks.ready("operator-cost", "predict-gap"):
    llama = models.preset("llama-3.1-8b")
    bf16 = {**card, "flops_per_s": a100.flops_per_s("bfloat16")}
    host_bf16 = {**host, "flops_per_s": roof_here.flops_per_s("bfloat16")}
    tokens_per_s = machines.published("GPU-A100-decode-Llama-3.1-8B-bf16-tp1").value
    scale_cost = operator_cost("multiply", [(scale_size,), ()], 8)
    # One operation for every 16 bytes: the float64 peak is nowhere near, so the float32 one may stand in for it.
    work = {
        "matmul 2048, float32": (
            operator_cost("matmul", [(product_size, product_size)] * 2, 4), host, card,
            machines.published("GPU-A100-80-PCIe-fp32lin-2048x2048x2048").value * 1e-3, (product_here.median, "measured"),
        ),
        "array times a number, float64": (
            scale_cost, host, card,
            scale_cost["bytes"] / (machines.published("GPU-A10080GB-stream-scale").value * 1e9), (scale_here.median, "measured"),
        ),
        "prefill, GPT-2 Large, 8 x 1024, float32": (
            gpt2_large(8, 1024), host, card,
            machines.published("GPU-A100-40GB-GPT2-Large-b8-non-fused").value * 1e-3, None,
        ),
        "decode, Llama-3.1-8B, bfloat16": (
            models.phase_cost(llama, 1, 1, 128, 2), host_bf16, bf16, 1 / tokens_per_s, None,
        ),
        "prefill, Llama-3.1-8B, 1024, bfloat16": (models.phase_cost(llama, 1, 1024, 0, 2), host_bf16, bf16, None, None),
    }
    predicted_gap, found_gap, table = {}, {}, []
    for label, (cost, slow, fast, gpu_s, measured) in work.items():
        prediction = predict_gap(cost, slow, fast)
        host_s, kind = measured or (prediction["slow_s"], "modelled")
        predicted_gap[label] = prediction["gap"]
        if gpu_s is None:  # nothing published at hand: a prediction alone
            continue
        found_gap[label] = (host_s / gpu_s, kind)
        table.append({
            "work": label, "FLOP/byte": f"{cost['flops'] / cost['bytes']:.1f}", "limits here, there": ", ".join(prediction["limits"]),
            "here": f"{host_s * 1e3:.4g} ms ({kind})", "A100, predicted": f"{prediction['fast_s'] * 1e3:.3g} ms",
            "A100, published": f"{gpu_s * 1e3:.3g} ms", "of the bound": f"{prediction['fast_s'] / gpu_s:.0%}",
        })
    gap_low, gap_high = min(predicted_gap.values()), max(predicted_gap.values())
    found_beside_predicted(
        predicted_gap,
        {"this machine over published A100": found_gap},
        title=f"One GPU, five kinds of work: predicted gaps from {gap_low:.0f} to {gap_high:.0f}",
        quantity="times as fast as this machine, at the same dtype",
    ).show()
    display(pandas.DataFrame(table))
    display(Markdown(
        f"Work that arithmetic limits gains the ratio of the peaks ({peak_ratio:.0f} in float32, "
        f"{bf16['flops_per_s'] / host_bf16['flops_per_s']:.0f} in bfloat16, where tensor cores help), work that memory limits the ratio of the "
        f"bandwidths ({bandwidth_ratio:.0f}). A gap that is found above its prediction means that this machine missed its own ceilings, one "
        "below that the GPU missed its. "
        f"{checks.recall('decode gap')} A mark at the kind *modelled* is a prediction for this machine over a published time."
    ))

# %% id="gap-own-gpu"
if device != "cpu" and checks.ready("predict-gap"):
    rows = [
        {"work": case, "this CPU": bench.format_seconds(model_times["cpu", case].median),
         device: bench.format_seconds(model_times[device, case].median),
         "gap, measured": f"{model_times['cpu', case].median / model_times[device, case].median:.1f}"}
        for case in model_costs
    ]
    display(pandas.DataFrame(rows))
else:
    print("device is the CPU: no second column to measure. Set device = \"cuda\" in the parameters cell where there is a GPU.")

# %% [markdown] id="where-it-fails"
# ### 3.4 Where the prediction fails, and why
#
# **What you need to know.** A roofline is a bound for data that come from the memory whose bandwidth was put in: what lies in a cache may beat it, nothing else does, and much runs slower. Three reasons come back again and again on GPUs.
#
# * **Launch overhead.** A kernel that runs for less time than it takes to start. Chains of small kernels pay it once for each; recording them once and replaying them (a *CUDA graph*) pays less.
# * **Occupancy.** The lanes are busy only when there is work for all of them. A product is cut into tiles, and one SM works on each. A product of 512 by 768 in tiles of 128 by 64 has 48 of them, and would leave more than half of 108 SMs idle; a library then takes smaller tiles, and each of those reuses less of what it loaded.
# * **Thermal and power limits.** The peak is stated at a clock that the chip holds only while it stays cool. A T4 may draw 70 W, as much as a light bulb used to, and lowers its clock under sustained load (Jia et al. 2019, arXiv:1903.07486).

# %% id="failures"
def fraction(name, spec, flops=0, byte_count=0, unit_s=1e-3, dtype="float32", seconds=None):
    """Share of the bound of a published time: (bound seconds) / (published seconds)."""
    peak, bandwidth = spec.flops_per_s(dtype), spec.bandwidth_bytes_per_s()
    return max(flops / peak, byte_count / bandwidth) / (seconds or machines.published(name).value * unit_s)


t4 = machines.spec("T4")
small_bytes = 16 * 4096
graph = machines.published("GPU-A10080GB-smallkernel-graph")
llama_bytes = models.phase_cost(models.preset("llama-3.1-8b"), 1, 1, 128, 2)["bytes"]
reached = {
    "A100, product of 2048": fraction("GPU-A100-80-PCIe-fp32lin-2048x2048x2048", a100, flops=2 * 2048**3),
    "A100, product of 512 x 768 x 768": fraction("GPU-A100-80-PCIe-fp32lin-512x768x768", a100, flops=2 * 512 * 768 * 768),
    "T4, product of 2048": fraction("GPU-T4-fp32lin-2048x2048x2048", t4, flops=2 * 2048**3),
    "T4, product of 8192 x 4096 x 16384: half a second": fraction(
        "GPU-T4-fp32lin-8192x16384x4096", t4, flops=2 * 8192 * 16384 * 4096
    ),
    "A100, 64 kB times a number": fraction("", a100, byte_count=small_bytes, seconds=small_bytes / (small_kernel.value * 1e9)),
    "the same in a CUDA graph": fraction("", a100, byte_count=small_bytes, seconds=small_bytes / (graph.value * 1e9)),
    "A100, decode of Llama-3.1-8B, compiled": fraction(
        "", a100, byte_count=llama_bytes, seconds=1 / machines.published("GPU-A100-decode-Llama-3.1-8B-bf16-tp1").value
    ),
    "A100, decode of Llama-3-8B, another program": fraction(
        "", a100, byte_count=llama_bytes, seconds=1 / machines.published("GPU-A100SXM80GB-llamacpp-Llama-3-8B_F16").value
    ),
}
plots.bars(
    {label: round(100 * share, 1) for label, share in reached.items()},
    truth=100.0, truth_name="bound", unit="%", kinds="published", quantity="share of the roofline bound",
    title="The bound is the same formula everywhere; what reaches it is not",
).show()
Markdown(
    f"The A100 reaches {reached['A100, product of 2048']:.0%} of its float32 bound on a large product, and "
    f"{reached['A100, product of 512 x 768 x 768']:.0%} on a small one, for which the library chose tiles of 32 by 32 (occupancy against reuse). The T4 falls from "
    f"{reached['T4, product of 2048']:.0%} to {reached['T4, product of 8192 x 4096 x 16384: half a second']:.0%} when the product gets "
    "*larger* and runs for half a second: its 70 W limit, or the other kernel that was chosen there; the source does not record the clock, "
    "so nobody can say which. A small kernel reaches "
    f"{reached['A100, 64 kB times a number']:.1%} (launch; its 64 kB would even fit the cache). And two cards of one type decode nearly the same model at "
    f"{reached['A100, decode of Llama-3.1-8B, compiled']:.0%} or {reached['A100, decode of Llama-3-8B, another program']:.0%} of its bound, "
    "depending on the program. The ratio of two machines is always a ratio of two *stacks*."
)

# %% [markdown] id="part-4"
# ## Part 4: Five systems, four questions
#
# ### 4.1 Control flow, dataflow, and what a domain buys
#
# **What you need to know.** A processor of the ordinary kind follows **control flow**: a program counter says which instruction comes next, and data are fetched for it. In **dataflow** there is no such counter: an operation may run as soon as its operands are there (it *fires*), and what it produces lets others fire. A program then is a graph, its nodes operations, its edges the data between them. Dataflow can be *dynamic*, when hardware finds out at run time what is ready, or *static*, when a compiler has worked out before where and in which order everything happens. It can be fine, each operation on its own, or coarse, whole tiles at a time. Real machines mix these, so ask at which level.
#
# Four of the five machines of this course are **domain-specific architectures**: they give up what a neural network does not need, branch prediction or coherent caches or 64-bit arithmetic, and spend the transistors on multipliers and on memory near them. The GPU is the general one at their border: it keeps caches and 64-bit arithmetic, and has added tensor cores. The five differ in what they leave to hardware at run time and what they ask of a compiler. Two terms for that: a **cache** is filled by hardware when something is missing; a **scratchpad** is filled by the program, because somebody planned it.
#
# Whatever new accelerator you meet, ask four questions: *What is the execution model? Where is the memory? Who schedules the operations? What does the compiler control?*
#
# ### 4.2 Five machines
#
# **NVIDIA GPU.** Each SM holds many warps of threads that have program counters of their own, and its warp schedulers issue in each cycle from a warp that is ready. A block scheduler hands out blocks of threads, caches fill and evict by themselves, DRAM controllers reorder requests; all of that is decided by hardware while the program runs. Beside the caches each SM has shared memory that a kernel fills. A compiler chooses how operators are fused, the sizes of tiles, and what a block stages in shared memory; it can only hint at what a cache keeps. PyTorch runs operators eagerly, one kernel each, or through torch.compile as graphs; kernels are written in CUDA or Triton.
#
# **Google TPU.** One core issues very wide instruction words (VLIW bundles), each with work for a scalar unit, a vector unit of 8 by 128 lanes, the transfers, and the *MXU*: a systolic array in which weights stay put and activations pass from cell to cell. There is no cache on this path. XLA compiles the traced program as a whole: fusion, the layout of tensors in tiles of 8 by 128, and what lies in the scratchpad (*VMEM*) when; transfers from HBM are part of its schedule. Division over chips follows annotations. The host launches programs at run time. Hand-written kernels are in Pallas.
#
# **Cerebras WSE.** A wafer carries some 900,000 small cores, each with 48 KB of SRAM and a router to its four neighbours, and no other memory. A message of one word (a *wavelet*) carries a colour; its arrival starts the task that waits for this colour, a short ordinary program. The compiler places each layer on a rectangle of cores and sets the route of every colour before the run; which task runs next depends on what arrives. A model that does not fit has its weights streamed in from outside the wafer, layer by layer. PyTorch steps are traced and placed; kernels are written in CSL.
#
# **Groq LPU.** Operands stream east and west across the chip in 320-byte vectors, past functional units that stand in their way: memory, matrix planes, vector units. Every instruction has its cycle, fixed by the compiler, also between chips; there is no cache, no arbiter, and nothing that could wait. SRAM, 220 MiB of it a chip, is the only memory and forms one address space with that of the other chips. The compiler knows in which slice of memory on which chip each vector is at each moment. Models are exported (ONNX) and built by a closed compiler; there is no public language for kernels.
#
# **IBM Spyre.** 32 cores, each with a matrix unit and a 2 MB scratchpad (*LX*), are joined by a ring, with LPDDR5 behind them. The compiler divides the work of an operation over the cores, lays tensors out in *sticks* of 128 bytes, decides what stays in the scratchpads, and writes a program for each core; a core starts on a tile when its inputs have been staged. Order and placement are fixed in that plan; how long a transfer takes is not. Between kernels the host's runtime submits one after the other, in ordinary control flow. Programs come through torch.compile; the compiler's artifact is readable, operation by operation and core by core.
#
# Details change by generation. A claim about "the GPU" or "the TPU" is about the ones in the table below.
#
# ### 4.3 Where is the memory?
#
# **Predict.** Which of the five holds the 16-bit weights of an 8-billion-parameter model in SRAM on one device?

# %% id="predict-fit"
checks.predict("fits in SRAM", choices=["none", "only the WSE", "the WSE and the LPU", "all but the GPU"], answer=None)

# %% id="memory-picture"
gpu, tpu, wafer, lpu, spyre = (machines.spec(key) for key in ("A100-80", "TPU-v5e", "WSE-3", "Groq-LPU-v1", "Spyre"))


def level(system, name, spec, where, side="right", bandwidth=None):
    """A level of memory of the whole product, from its published facts."""
    return Level(system, name, spec.capacity_bytes(where), bandwidth or spec.bandwidth_bytes_per_s(where), side)


l2 = machines.published("GPU-A10080GB-L2-15360kB").value * 1e9  # measured by others: no data sheet states it
levels = [
    level("GPU (A100)", "L2 cache", gpu, "l2", side="left", bandwidth=l2),
    level("GPU (A100)", "HBM", gpu, "offchip", side="left"),
    level("TPU (v5e)", "VMEM", tpu, "vmem", side="left"),
    level("TPU (v5e)", "HBM", tpu, "offchip"),
    level("WSE-3", "SRAM of all cores", wafer, "sram", side="left"),
    level("LPU v1", "SRAM", lpu, "sram"),
    level("Spyre", "LX of all cores", spyre, "local_sram", side="below", bandwidth=spyre.bandwidth_bytes_per_s("sram")),
    level("Spyre", "LPDDR5", spyre, "offchip"),
]
needs = {name: landscape.number(f"weights/{name}/bfloat16").value for name in ("llama-3.1-8b", "llama-2-70b")}
fits = [found.system for found in levels if "SRAM" in found.name and found.capacity_bytes >= needs["llama-3.1-8b"]]
chips = math.ceil(needs["llama-2-70b"] / lpu.capacity_bytes("sram"))
capacity_and_bandwidth(
    levels, needs={f"weights of {name}": size for name, size in needs.items()},
    title="More capacity, less bandwidth, unless a whole wafer is SRAM",
).show()
Markdown(
    f"Only {' and '.join(fits)} holds the 8-billion-parameter model in SRAM. The LPU has more bandwidth than any DRAM and would need at "
    f"least {chips} chips for the 70-billion one. On the other three the weights lie in DRAM, and every token reads them from there. "
    f"Published figures; the scratchpad's bandwidth of Spyre is derived from a contested clock. {checks.recall('fits in SRAM')}"
)

# %% [markdown] id="five-machines-text"
# ### 4.4 One model, five machines
#
# **What you need to know.** So far you had one fact of a machine at a time. Now one program, the 8-billion-parameter model as PyTorch captures it, goes through an *execution model* of each machine. That is a calculation which does with every operator what this machine's software and hardware would: cut it into tiles, pad it, place it on cores, load weights, pass sums on; and adds up the time with a reason for each part. Nothing is timed, so these numbers are **modelled**. `labkit validate` prints how they compare with every published measurement that we found, and what no measurement can check.
#
# What one device cannot hold goes onto several: of the LPU there are as many chips as the weights need.
#
# **Predict.** One user, one token after the other. On which machines does reading weights from DRAM *not* take most of the time?

# %% id="predict-no-dram"
checks.predict("no DRAM", choices=["none", "only the WSE", "the WSE and the LPU", "the WSE, the LPU and Spyre"], answer=None)

# %% id="five-machines"
five = ["A100-80", "TPU-v5e", "WSE-3", "Groq-LPU-v1", "Spyre"]
print("capturing the model twice, some ten seconds")
compared = {phase: machines.compare(workload("llama-3.1-8b", phase, tokens=1024), five) for phase in ("decode", "prefill")}
time_by_cause(compared["decode"], title="Decode, one user: what a token's time goes into").show()
without = [run.plan.machine for run in compared["decode"].runs if run.time_by_cause.get("off-chip memory", 0.0) < 0.5 * run.seconds]
Markdown(
    f"DRAM does not take most of the time on {' and '.join(without)}. {checks.recall('no DRAM')}\n\n"
    + "\n".join(f"* {reading(run)}" for run in compared["decode"].runs)
)

# %% [markdown] id="mapping-text"
# **Look.** The same product of one layer, as each machine would lay it out. Every picture has its own parts, because there is no common one: thread blocks in waves on SMs, tiles through a systolic array, a rectangle of PEs on the wafer, a timetable of streams, sticks on cores. Look in each for what is idle, and for what moves.

# %% id="mapping-pictures"
mapping_pictures(compared["decode"]).show()

# %% [markdown] id="prefill-mapping-text"
# **Look.** In prefill a thousand rows go through the same weights. What was idle is filled, and the order of the machines changes: fast for one user and fast for much work at once are two different things.

# %% id="prefill-mappings"
time_by_cause(compared["prefill"], title="Prefill, 1,024 tokens: where arithmetic counts").show()
mapping_pictures(compared["prefill"]).show()
unchecked = [f"* {run.plan.machine}: {note}" for run in compared["prefill"].runs for note in run.plan.notes if "no public row" in note]
asked = [f"* {system}: {words}" for system in ("cerebras", "groq", "spyre") for words in validated(system).open_questions]
Markdown("How far to trust this:\n\n" + "\n".join(unchecked) + "\n\nWhat no public measurement can check:\n\n" + "\n".join(asked))

# %% id="runs"
runs = {
    machines.id_of(run, "llama-3.1-8b", 1, 1024): run for phase in ("decode", "prefill") for run in compared[phase].runs
}
pandas.DataFrame([
    {
        "id": str(id), "devices": run.plan.options["devices"], "time": bench.format_seconds(run.seconds),
        "tokens a second": f"{id.value('tokens-per-s'):,.0f}", "most time": run.bound, "kind": "modelled",
    }
    for id, run in runs.items()
]).style.hide(axis="index")

# %% [markdown] id="explorer-text"
# **Try.** The same with controls, for a smaller model that answers faster. Raise the batch until the first limit of a machine gives way to another; change to prefill; look at each machine's own picture. On a page without controls you see the first choice.

# %% id="explorer"
explorer(machine="WSE-3")

# %% [markdown] id="vocabulary-text"
# ### 4.5 The first rows of your Map
#
# **What you need to know.** The *Accelerator Landscape Map* is a table that you carry through all six labs: questions down, the five systems across. A cell holds a **claim**, one of the row's vocabulary, so that two Maps can be compared; your **reasoning**, in your own words; and for some claims **evidence**: a pair of numbers whose ratio supports it, in the right direction and by enough. (Support, not proof: a ratio rarely excludes every other claim. Your reasoning has to.) Numbers are named by id: `spec/PRODUCT/FIELD` is a published fact (`labkit machines A100-80`, or `machines.spec("A100-80")` in a cell, lists the fields), `published/ID` a published measurement, `weights/PRESET/DTYPE` the size of a model, `run/.../WHAT` a number of a modelled run (the ids of 4.4, with `time`, `tokens-per-s`, `devices`, `peak-share` or `share-of-CAUSE` at their end; another model, phase, batch or length is run when you name it), and in your own Map also what you measured.

# %% id="vocabulary"
landscape.vocabulary("lab1")

# %% id="numbers-to-point-at"
pandas.DataFrame([
    {"id": f"spec/{found.key}/{field}", "says": str(found[field]), "status": found[field].status_in_words}
    for found in (gpu, tpu, wafer, lpu, spyre)
    for field in ("l2", "vmem", "local_sram", "sram_total", "sram_bw", "offchip_size", "offchip_bw", "host_link_bw")
    if field in found
]).style.hide(axis="index")

# %% [markdown] id="landscape-cells-text"
# **Exercise `landscape-cells`** (core, about {{minutes: landscape-cells}} minutes). Answer the four questions for all five systems: twenty cells, a sentence each. Each row gives its point by itself. The check judges claim and evidence; your reasoning has to be there, and is read by people.
#
# <details><summary>Hint 1: where to look</summary>Everything that you need stands in 4.2, in the picture of 4.3 and in the vocabulary. Where two claims look alike, find the word in which they differ: hardware or program, order or cycle, one address space or each core its own.</details>
# <details><summary>Hint 2: a smaller case</summary>Take one machine and ask of each thing that could be decided, the next instruction, the next transfer, what is evicted: is it decided before the program runs, or while it runs, and by whom? What you find answers two of the four rows.</details>
# <details><summary>Hint 3: a way in</summary>For evidence, the vocabulary says what the pair has to show. Where there is DRAM, set its capacity over that of the memory near the arithmetic; where there is none, set the bandwidth inside over that of the link to the outside. Both numbers have to be of one product.</details>

# %% exercise="landscape-cells" level="core" minutes=36
# exercise: landscape-cells
def landscape_cells(system):
    """Cells of the rows execution-model, memory-hierarchy, who-schedules and compiler-controls for one system.

    system: "gpu", "tpu", "cerebras", "groq" or "spyre".
    Returns {row id: {"claim": str, a claim id of the row; "reasoning": str, one sentence of yours; "evidence": None, or [a, b], ids
    of two numbers whose ratio a / b shows it}} with exactly these four rows. Only claims about memory need evidence here.
    >>> sorted(landscape_cells("gpu"))
    ['compiler-controls', 'execution-model', 'memory-hierarchy', 'who-schedules']
    """
    ### BEGIN SOLUTION
    answers = {
        "gpu": {
            "execution-model": ("simt-threads", "Every warp has its own counter, and ready ones fill in for waiting ones.", None),
            "memory-hierarchy": ("caches-before-dram", "L1 and L2 fill themselves from HBM; shared memory is beside them.", ["spec/a100-80/offchip_size", "spec/a100-80/l2"]),
            "who-schedules": ("hardware-at-run-time", "Blocks, warps, evictions and DRAM order are decided during the run.", None),
            "compiler-controls": ("fusion-and-tiles", "It shapes kernels; where their data are kept is up to the caches.", None),
        },
        "tpu": {
            "execution-model": ("wide-words-and-systolic-array", "A single sequence of bundles feeds all units; only in the MXU do data do the pushing.", None),
            "memory-hierarchy": ("scratchpad-before-hbm", "VMEM holds what XLA had fetched from HBM.", ["spec/tpu-v5e/offchip_size", "spec/tpu-v5e/vmem"]),
            "who-schedules": ("compiler-on-the-core", "Bundles and DMA come from XLA; hosts start programs whenever they like.", None),
            "compiler-controls": ("layout-and-scratchpad", "Tiles of 8 by 128, fusion, VMEM; annotations split over chips.", None),
        },
        "cerebras": {
            "execution-model": ("data-triggered-tasks", "A wavelet's colour wakes a small task on its core.", None),
            "memory-hierarchy": ("sram-beside-each-core", "48 KB at every core, and a narrow way out of the wafer.", ["spec/wse-3/sram_bw", "spec/wse-3/offchip_bw"]),
            "who-schedules": ("compiler-places-hardware-fires", "Routes are set beforehand, tasks run in the order of arrival.", None),
            "compiler-controls": ("placement-and-routes", "It picks rectangles, colours and whether weights are streamed.", None),
        },
        "groq": {
            "execution-model": ("scheduled-streams", "Vectors pass units at cycles known beforehand.", None),
            "memory-hierarchy": ("sram-in-one-address-space", "All chips' SRAM together, and nothing behind it.", ["spec/groq-lpu-v1/sram_bw", "spec/groq-lpu-v1/host_link_bw"]),
            "who-schedules": ("compiler-every-cycle", "No unit can wait or choose.", None),
            "compiler-controls": ("everything-to-the-cycle", "Slice, chip and moment of every vector.", None),
        },
        "spyre": {
            "execution-model": ("tile-dataflow", "A core begins a tile once it is staged; kernels follow one another by ordinary control.", None),
            "memory-hierarchy": ("scratchpad-before-lpddr", "LX is filled by plan from LPDDR5.", ["spec/spyre/offchip_size", "spec/spyre/local_sram"]),
            "who-schedules": ("compiler-plans-order", "The plan holds the order, not the length of a transfer.", None),
            "compiler-controls": ("division-layout-scratchpad", "Shares of cores, sticks, and what remains in LX.", None),
        },
    }
    return {row: dict(zip(("claim", "reasoning", "evidence"), cell)) for row, cell in answers[system].items()}
    ### END SOLUTION

# %% check="landscape-cells" points=4
# check: landscape-cells
checks.landscape_cells(landscape_cells)
### BEGIN HIDDEN TESTS
checks.landscape_cells(landscape_cells, seed=checks.grading_seed())
### END HIDDEN TESTS

# %% [markdown] id="memory-facts-text"
# **Look.** What the sources say in their own words. Abbreviations that are not from this lab are theirs; later labs explain those that you need.

# %% id="memory-facts"
facts = {"scheduling": "who_schedules", "memory is managed by": "memory_mgmt", "shapes": "layout_constraint"}
pandas.DataFrame(
    {found.name: {label: str(found[field]) for label, field in facts.items()} for found in (gpu, tpu, wafer, lpu, spyre)}
).style.set_properties(**{"text-align": "left", "white-space": "normal", "min-width": "12em"})

# %% [markdown] id="trade-offs-text"
# **Exercise `trade-offs`** (stretch, about {{minutes: trade-offs}} minutes). The two remaining rows of this lab: how does a program get there, and what does the machine give up for what it gains? The second needs a pair of numbers for every system.
#
# <details><summary>Hint 1: where to look</summary>The programming model is the last sentence of each paragraph in 4.2. For the trade-off look at the picture of 4.3 beside 3.4: what does the machine need in order to be fast, and what happens without it?</details>
# <details><summary>Hint 2: a smaller case</summary>A machine loses nearly everything when its work is too small. Which two published measurements of one product show that, one with much work and one with little? `machines.find(system="TPU")` lists what there is.</details>
# <details><summary>Hint 3: a way in</summary>Each claim takes one of two kinds of pair. Of facts and published measurements: for a GPU, two bandwidths of one card; for a TPU, two rates; for the wafer, inside and outside; for the LPU, a model and a chip; for Spyre, its memory's bandwidth and that of a card of another system. Of runs: for a GPU, tokens a second of its two phases; for a TPU, its share of the peak in both; for the wafer, the time of the stacks `streamed` and `resident`; for the LPU, devices, against another machine's; for Spyre, time, against another machine's.</details>

# %% exercise="trade-offs" level="stretch" minutes=25
# exercise: trade-offs
def trade_offs(system):
    """Cells of the rows programming-model and key-trade-off for one system, as in landscape_cells.

    system: "gpu", "tpu", "cerebras", "groq" or "spyre".
    Returns {row id: {"claim": str, "reasoning": str, "evidence": None or [a, b]}} with exactly these two rows.
    >>> sorted(trade_offs("gpu"))
    ['key-trade-off', 'programming-model']
    """
    ### BEGIN SOLUTION
    def run(where, phase, what):
        return f"run/{where}/llama-3.1-8b/{phase}/1x1024/bfloat16/{what}"

    programs = {
        "gpu": ("eager-kernels-or-graph", "Operators one by one, or what Dynamo caught; CUDA and Triton are open."),
        "tpu": ("whole-graph-through-xla", "XLA wants the whole trace; Pallas is the way around it."),
        "cerebras": ("step-placed-on-fabric", "A step is traced and laid out; below it is CSL."),
        "groq": ("exported-to-closed-compiler", "ONNX in, a binary out, nothing to write in between."),
        "spyre": ("torch-compile-to-core-programs", "A graph from torch.compile ends as a plan for 32 cores."),
    }
    costs = {
        "gpu": ("generality-needs-parallelism", "It takes tokens in a hundred times as fast as it writes them one by one.", [run("A100-80/compiled", "prefill", "tokens-per-s"), run("A100-80/compiled", "decode", "tokens-per-s")]),
        "tpu": ("throughput-needs-regular-shapes", "A product of 512 gets a ninth of what a large one gets.", ["published/TPU-v7x-gemm-32768", "published/TPU-v7x-gemm-512"]),
        "cerebras": ("bandwidth-needs-fit", "With weights from outside, a token takes hundreds of times as long.", [run("WSE-3/streamed", "decode", "time"), run("WSE-3/resident", "decode", "time")]),
        "groq": ("determinism-needs-chips", "What one card holds takes tens of chips.", [run("Groq-LPU-v1/static", "decode", "devices"), run("A100-80/compiled", "decode", "devices")]),
        "spyre": ("capacity-needs-reuse", "128 GB stand behind a tenth of an A100's bandwidth, and a token takes that much longer.", [run("Spyre/torch-spyre", "decode", "time"), run("A100-80/compiled", "decode", "time")]),
    }
    claim, reasoning = programs[system]
    cost, why, pair = costs[system]
    return {
        "programming-model": {"claim": claim, "reasoning": reasoning, "evidence": None},
        "key-trade-off": {"claim": cost, "reasoning": why, "evidence": pair},
    }
    ### END SOLUTION

# %% check="trade-offs" points=2
# check: trade-offs
checks.trade_offs(trade_offs)
### BEGIN HIDDEN TESTS
checks.trade_offs(trade_offs, seed=checks.grading_seed())
### END HIDDEN TESTS

# %% [markdown] id="my-map-text"
# **Look.** The next cell puts your cells into your Map, with what you measured in this lab, and shows it. The Map is a file that grows from lab to lab; filling a cell again keeps what it held before.

# %% id="my-map"
my_map = landscape.LandscapeMap.open()
my_map.keep(product_here, id="lab1/matmul-2048-float32", label=f"product of 2048 in float32 on {cores} threads, here")
my_map.keep(roof_here.bytes_per_s, id="lab1/copy-bandwidth", quantity="byte/s", label="copy outside the caches, here")
for id in runs:
    my_map.keep_run(id, "time")
if checks.ready("landscape-cells"):
    sources = [landscape_cells] + ([trade_offs] if checks.passed("trade-offs") else [])
    for column in landscape.systems():
        for cells in sources:
            for row_id, cell in cells(column).items():
                my_map.fill(row_id, column, **cell)
print(my_map.note)
my_map.render("lab1")

# %% id="my-map-export"
for kind in ("md", "csv", "html"):
    print("written:", my_map.export(kind, f"landscape_map.{kind}").name)

# %% [markdown] written="gap-in-words" points=4
# **written: gap-in-words** (about 10 minutes, read by a person). A colleague says: "We moved from the CPU to an A100, and the model is 40 times faster. So for our chatbot, which serves one user at a time, we should buy the card with the highest FLOP/s." Answer in at most 150 words, with at least two numbers from this lab; say of each whether it is measured, recorded, published or modelled, and under which conditions (phase, dtype, machine). Write under this paragraph.
#
# ### BEGIN SOLUTION
# "40 times" says little before we know which phase, which dtype and how many threads were compared. One user at a time is decode, and decode reads every weight once a token: it is memory-bound on both machines, so the ratio of bandwidths decides, not that of FLOP/s. For Llama-3.1-8B in bfloat16 the A100's roofline gives about 8 ms a token (modelled from the published 2,039 GB/s), and 10.7 ms were published; its float32 product of 2048, compute-bound, takes 1.05 ms (published) against some 90 ms here (measured). A card with twice the FLOP/s and the same memory would write tokens no faster. Buy bandwidth, or batch users; and measure your own model, in the dtype you will serve, before and after.
# ### END SOLUTION

# %% [markdown] instructor="true" id="rubric-gap-in-words"
# **Rubric for `gap-in-words`: two axes, 0 to 2 points each.**
#
# | points | specific | correct |
# |---|---|---|
# | 2 | at least two numbers from the lab, each with its kind and its conditions (dtype, phase, machine) | says that one user means decode, that decode is bound by memory on both machines, and that more FLOP/s alone do not help; nothing else is wrong |
# | 1 | one such number, or two without kind or conditions | the conclusion is right and the reason is missing or partly wrong (launch overhead alone, or "the GPU is idle" without saying why) |
# | 0 | no number, or numbers that are not in the lab | agrees with the colleague, or argues from peak FLOP/s |
#
# Full marks do not need the words of the model answer. An answer that asks for the missing conditions (dtype, threads, phase of the "40 times") before anything else is a good one. An answer far over 150 words is graded by its first 150. On a machine whose peak and bandwidth are in the same ratio to the A100's, the argument still has to be the one from memory. Common: taking the published A100 time as measured; comparing float32 here with bfloat16 there.

# %% [markdown] id="takeaways"
# ## Takeaways
#
# * A clock around a launch times the launch. Synchronize before the first reading and before the second; call a device warm when its samples agree; keep raw samples, quote the median, and interleave what you compare.
# * A ratio of two numbers says something about what differs between them. Make that one thing: the same dtype, threads, device and kind, or say so.
# * FLOPs and bytes follow from shapes. Their quotient, beside the ridge point of a machine, says what limits an operator there.
# * A GPU is faster by its lanes where arithmetic limits and by its bandwidth where memory does. Prefill gains the one, decode the other.
# * A bound is not a promise: launches, too few tiles, and a hot chip take their share, and so does the program around it.
# * Four questions open any accelerator: the execution model, the memory, the scheduler, what the compiler controls.
#
# **What comes next.** Lab 2 takes one block of this model apart into a graph of operations, and executes it as dataflow: nodes that fire when their operands arrive. Bring your Map; its next rows are about what a system sees of a program.

# %% [markdown] id="glossary"
# ## Glossary
#
# {{glossary: arithmetic intensity, asynchronous launch, block, cache, compulsory traffic, confidence interval, control flow, dataflow, decode, drift, dtype, FLOP, interquartile range, kernel, kind of number, KV cache, median, occupancy, outlier, prefill, ridge point, scratchpad, SIMT, synchronize, systolic array, tensor core, thread, virtual clock, warm-up, warp}}

# %% [markdown] id="hand-in-text"
# ## Hand in
#
# The cell below lists what this session has checked. Your answer in words (4 points more) is read by a person. Your Map is a file of its own: keep it for Lab 2.

# %% id="hand-in"
checks.hand_in()
