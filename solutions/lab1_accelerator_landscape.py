# %% [markdown] id="title"
# {{badges}}
#
# # Lab 1: The accelerator landscape
#
# *{{course}}*
#
# **Part 1 of 4, about {{lab.minutes}} minutes. Works without a GPU, offline, on two CPU cores.**
#
# The same PyTorch model becomes a different execution on every accelerator, and before anybody can say which one is faster, somebody has to time it. A disagreement about speed is often a disagreement about timing. In this part you build the instrument that the rest of the course reads.
#
# After part 1 you can
#
# * say what a clock around an asynchronous launch measures, and make it measure the work instead;
# * decide from the numbers, not by habit, when a device is warm;
# * take samples that an outlier, a coarse clock or a hidden thread count cannot spoil, and summarize them;
# * compare two pieces of work on a machine whose speed changes while you look;
# * refuse a comparison between two numbers that were not taken under the same conditions.
#
# Parts 2 to 4 (this machine, the CPU to GPU gap, five systems and four questions) come with the next version of this notebook.

# %% [markdown] id="how-it-works"
# ## How a lab works
#
# An **exercise** cell holds one function with a gap; its docstring says what goes in and out, with units. The cell under it is its **check**: run it as often as you like. It says what was tested, what you returned, and one likely cause. Cells that need a function of yours **wait** until its check has given points, so "Run all" always reaches the end. Hints are folded, three to an exercise, from a nudge to a way in.
#
# **Predictions** are kept and shown again beside the result. They are never scored: being wrong in a particular way is the most useful thing that can happen to you here.
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

import statistics

from IPython.display import Markdown

from labkit import bench, notebook
from labkit.bench.statistics import median_interval
from labkit.bench.virtual import VirtualDevice
from labkit.checks import lab1 as checks
from labkit.plots import timing as plots
from labkit.plots.dots import over_truth

notebook.start("lab1_accelerator_landscape", built_with="{{version}}")

# %% tags=["parameters"] id="parameters"
# Parameters: plain values; a headless run may replace them.
seed = 0  # of the virtual devices in the pictures
profile = "fast"  # "fast" or "full": how much is measured on this machine
device = "cpu"  # where the real measurements run: "cpu", "cuda", ...

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
    over_truth(instruments, truths, title="Only one of three instruments reads the kernel").show()
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
# **Exercise `warm-up`** (core, about {{minutes: warm-up}} minutes). Call the work, timing every call, until the last `window` samples agree or `limit` calls have been made. Report how many calls it took and whether they agreed. You may use your `time_once`.
#
# <details><summary>Hint 1: where to look</summary>The rule speaks about the newest samples only. What do you have to remember from call to call, and from which call on can the rule be tested at all?</details>
# <details><summary>Hint 2: a smaller case</summary>Samples 9, 3, 1.01, 1.00, 1.00 with window 3 and tolerance 0.02: after which call does the rule hold for the first time? What would a rule say that looks only at the last two?</details>
# <details><summary>Hint 3: a way in</summary>A loop with two ways out. One is the rule, tested right after a new sample arrived; the other is the count. What you return differs between the two ways out.</details>

# %% exercise="warm-up" level="core" minutes=11
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
# * *The clock ticks.* When a call is shorter than a few hundred ticks, rounding is most of the number. Time a **block** of calls between two readings and divide.
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
summaries = {"mean": average, "median": middle, "minimum": min(noisy_samples), "first sample": noisy_samples[0]}
errors = sorted((abs(value / truth - 1), name) for name, value in summaries.items())
plots.samples(
    {"noisy device": noisy_samples},
    truth=truth,
    mark={"mean": average, "median": middle},
    kind="modelled",
    title=f"A few slow calls move the mean by {average / truth - 1:.0%}, the median by {abs(middle / truth - 1):.1%}",
).show()
Markdown(
    "Relative error: " + ", ".join(f"{name} {error:.1%}" for error, name in errors) + ". "
    "Where times vary both ways the minimum is on the low side, the first sample is as good as your luck, "
    f"and the mean averages two situations and describes neither. {checks.recall('best summary')}"
)

# %% id="hidden-threads"
import torch
from torch.utils.benchmark import Timer

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
# **Exercise `measure`** (core, about {{minutes: measure}} minutes). Put it together. On the threads that were asked for: warm up, find how many calls a block needs, take samples, summarize. Your `warm_up` may report that the device never became steady; measure all the same.
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
        warm_up(work, device)
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
    library = bench.measure(lambda: left @ left, device=device, threads=cores, dtype="float32", label=f"matmul {size}")
    rows = {f"yours, {n} thread" + ("s" if n > 1 else ""): found["median"] for n, found in mine.items()}
    rows[f"labkit.bench.measure, {cores} threads"] = library.median
    title = f"A {size} x {size} float32 matmul on this machine"
    plots.bars(rows, kinds="measured", title=title).show()
    display(library)
    display(Markdown(
        f"Measured here, now: your harness says {mine[cores]['median'] * 1e6:.1f} us on {cores} threads and "
        f"{mine[1]['median'] * 1e6:.1f} us on one, the library's says {library.median * 1e6:.1f} us on {cores}. "
        "Nobody knows the truth on this machine; two instruments that were built apart and agree are the best evidence "
        "there is. If they disagree by much, something else was using the machine: run the cell again."
    ))

# %% [markdown] id="comparing"
# ### 1.4 Is A faster than B?
#
# **What you need to know.** A chip that works gets warm, and a warm chip lowers its clock. A laptop on battery, a shared server, a phone: their speed *drifts* while you measure. If you time A first and B afterwards, the drift goes into the ratio, and no number of samples takes it out again: it is a bias, not noise.
#
# *Interleave*: in every round time both, one right after the other, and make the ratio inside the round. What drifts slowly is nearly the same for both and cancels. What is left is the order inside a round, so let the order alternate: a b, b a, a b, ... Then summarize the ratios by their median, and say how sure you are: `median_interval(ratios)` gives a 95 % confidence interval of the median that assumes nothing about the distribution (`.low`, `.high`).
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
# **Exercise `compare`** (core, about {{minutes: compare}} minutes). Interleave. Each round gives one ratio.
#
# <details><summary>Hint 1: where to look</summary>Which of the two is measured on the warmer device in a round? Is it always the same one?</details>
# <details><summary>Hint 2: a smaller case</summary>Two equal kernels of 100 us; each call makes the next one 1 us slower. Write down the four samples of two rounds, once in the order a b, a b and once in the order a b, b a. What are the ratios?</details>
# <details><summary>Hint 3: a way in</summary>Warm both up before the first round. Keep one list of ratios; whether a round is even or odd decides who goes first, not how the ratio is formed.</details>

# %% exercise="compare" level="core" minutes=16
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
    warm_up(a, device)
    warm_up(b, device)
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
if checks.ready("time-once", "warm-up", "compare"):
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
if checks.ready("time-once", "warm-up", "compare"):
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

# %% [markdown] id="takeaways"
# ## Takeaways
#
# * A clock around a launch times the launch. Synchronize before the first reading and before the second.
# * A device is warm when its samples agree, not after a fixed number of calls; and a rule that was not met is reported.
# * Keep raw samples and quote the median. Time blocks of calls when a call is short against the clock's tick. Threads are part of the number.
# * Interleave and alternate what you compare, form ratios inside a round, and give an interval.
# * A ratio of two numbers says something about what differs between them. Make that one thing.
#
# **What comes next.** In part 2 your harness measures this machine: matmul, elementwise and reduction, over sizes, dtypes and threads, and you read caches and bandwidth out of the curve. Your Accelerator Landscape Map begins in part 4.

# %% [markdown] id="glossary"
# ## Glossary
#
# {{glossary: asynchronous launch, block, confidence interval, drift, dtype, interquartile range, kernel, kind of number, median, outlier, synchronize, thread, virtual clock, warm-up}}

# %% [markdown] id="hand-in-text"
# ## Hand in
#
# The cell below lists what this session has checked.

# %% id="hand-in"
checks.hand_in()
