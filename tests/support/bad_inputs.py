"""Bad inputs for all commands: the command line, and words that the one line of error must have.

The files that they name are made by ``tests/cli/test_bad_inputs.py``.
"""

TRAINING = ("train", "search", "distill", "prune", "compare", "sweep")
ALL = (*TRAINING, "reproduce", "status", "evaluate", "cost", "latency", "export", "report")

Case = tuple[str, str]


def _for(commands: tuple[str, ...], arguments: str, words: str) -> list[Case]:
    return [(f"{command} {arguments}", words) for command in commands]


CASES: list[Case] = [
    # the command line itself
    ("", "usage"),
    ("trian", "did you mean 'train'?"),
    ("--jsn", "unknown option '--jsn'"),
    *_for(ALL, "--jsno", "unknown option '--jsno'"),
    *_for(ALL, "--config none.toml", "cannot read config file none.toml"),
    *_for(ALL, "--config latin.toml", "latin.toml is not UTF-8 text"),
    *_for(ALL, "--config broken.toml", "broken.toml is not TOML"),
    *_for(ALL, "--config unknown.toml", "unknown key 'epoch_s'"),
    *_for(ALL, "--config typed.toml", "json must be true or false, not 'yes'"),
    *_for(ALL, "--config", "--config needs a value"),
    *_for(TRAINING, "stray", "unexpected argument 'stray'"),
    *_for(("prune", "train"), "--json=", "'--json=' has an empty value"),
    # networks
    *_for(
        ("train", "search", "prune", "compare", "cost", "latency"), "--model resnet21", "resnet20"
    ),
    *_for(("train", "prune", "cost"), "--model none.py:net", "none.py does not exist"),
    *_for(("train", "prune", "cost"), "--model nets.py:nothing", "has no function 'nothing'"),
    *_for(("train", "prune", "cost"), "--model nets.py", "needs the name of a function"),
    *_for(("train", "prune", "cost"), "--model nets.py:text", "must return a torch.nn.Module"),
    *_for(("train", "prune", "cost"), "--model nets.py:fails", "RuntimeError: no"),
    *_for(("train", "prune", "cost"), "--model syntax.py:net", "SyntaxError"),
    *_for(("train", "prune"), "--model nets.py:ten --data npz:tiny.npz", "returns 10 outputs"),
    *_for(
        ("prune",),
        "--method nets.py:ten",
        "must take the arguments (model, space, budget, context)",
    ),
    # choices
    *_for(("prune",), "--transfer x", "--transfer must be one of init, init+kd, kd, none"),
    *_for(("search", "prune"), "--residual x", "--residual must be one of pad, project, tied"),
    *_for(("search",), "--teacher x", "did you mean '--weights'?"),
    *_for(("search",), "--search-epochs 1", "did you mean '--epochs'?"),
    *_for(("search",), "--search.lr 1", "did you mean '--lr'?"),
    # datasets
    *_for(("train", "search", "prune", "compare", "sweep", "cost"), "--data digitz", "digits"),
    *_for(("train", "prune", "cost"), "--data npz:none.npz", "'none.npz' does not exist"),
    *_for(("train", "prune", "cost"), "--data npz:.", "is a folder"),
    *_for(("train", "prune", "cost"), "--data npz:torn.npz", "torn.npz"),
    *_for(("train", "prune", "cost"), "--data npz:keys.npz", "not in the file"),
    *_for(("train", "prune"), "--data npz:objects.npz", "objects.npz"),
    *_for(("train", "prune"), "--data npz:flipped.npz", "flipped.npz"),
    *_for(("train", "prune", "cost"), "--data folder:none", "'none' does not exist"),
    *_for(("train", "prune", "cost"), "--data folder:empty", "class folders"),
    *_for(("train", "prune"), "--data cifar10 --data-dir empty", "cifar10 is not in"),
    *_for(("train", "prune", "cost"), "--data cifar10:15", "cannot be averaged to '15'"),
    *_for(("train", "prune"), "--image-size 8", "image size 8 is for folder:PATH"),
    *_for(("train", "prune"), "--mean 0.5", "std is missing"),
    *_for(("train", "prune"), "--mean 100 --std 50", "fraction"),
    *_for(("train", "prune"), "--mean 0.5 0.5 --std 0.5 0.5", "2 numbers"),
    *_for(("train", "prune", "cost"), "--data tiny.npz", "'tiny.npz'; use --data npz:tiny.npz"),
    *_for(("cost", "latency"), "--data-dir empty", "unknown option '--data-dir'"),
    # numbers
    *_for(("train", "search", "distill"), "--epochs abc", "--epochs must be a whole number"),
    *_for(("train", "search", "distill"), "--lr abc", "--lr must be a number"),
    *_for(("train", "search", "distill"), "--lr -1", "lr must be"),
    *_for(("train", "search", "distill"), "--lr nan", "lr must be"),
    *_for(("train", "search", "distill"), "--batch-size 0", "batch_size must be at least 1"),
    *_for(TRAINING, "--seed -1", "seed must be at least 0"),
    *_for(TRAINING, "--validation 2", "validation must be"),
    *_for(TRAINING, "--devices 0", "devices must be at least 1"),
    *_for(TRAINING, "--workers -1", "workers must be at least 0"),
    *_for(TRAINING, "--precision 8", "--precision must be one of"),
    *_for(TRAINING, "--preset slow", "unknown preset 'slow'"),
    *_for(TRAINING, "--out=", "out must not be empty"),
    *_for(("train", "prune", "evaluate x"), "--device gpu", "unknown device 'gpu'"),
    *_for(("search", "prune", "compare"), "--runtime onnxruntime", "runtime is for a latency"),
    *_for(("search", "prune"), "--latency-batch 8", "latency_batch is for a latency"),
    *_for(("prune",), "--divisor auto --latency-table t.json", "latency_table is for a latency"),
    # folders
    *_for(("train", "prune"), "--out nets.py", "cannot write to run folder nets.py"),
    *_for(("train", "prune"), "--out /proc/run", "cannot write to run folder /proc/run"),
    *_for(("train", "prune"), "--out .", "has files but no config.toml"),
    *_for(("evaluate", "export", "report", "status"), "nowhere", "nowhere"),
    *_for(("evaluate", "export", "status"), "broken", "broken"),
    *_for(("evaluate", "export", "report", "status"), "empty", "empty"),
    ("status", "no run folder: give"),
    *_for(("evaluate", "export", "report"), "", "nothing to"),
    # weights and shapes
    *_for(("train", "search"), "--weights none.pt", "none.pt does not exist"),
    *_for(("train", "search"), "--weights evil.pt", "it would import posix.system"),
    *_for(("train", "search"), "--weights tiny.npz", "is of a kind that is not taken"),
    *_for(("train", "search"), "--weights nets.py", "give a .safetensors or a torch file"),
    *_for(("train", "search"), "--weights other.pt", "is not for this network"),
    *_for(
        ("train", "search"),
        "--weights empty",
        "empty is not a run folder: it has no config.toml; give",
    ),
    *_for(("prune", "compare", "sweep"), "--teacher none.pt", "none.pt does not exist"),
    *_for(("prune", "compare", "sweep"), "--teacher evil.pt", "it would import posix.system"),
    *_for(("train", "search"), "--new-head", "give --weights"),
    *_for(("prune", "compare", "sweep"), "--new-head", "give --teacher"),
    *_for(("train", "cost"), "--shape none.json", "cannot read shape file none.json"),
    *_for(("train", "cost"), "--shape nets.py", "a shape must be JSON"),
    *_for(("train", "cost"), "--shape list.json", "a shape must be a JSON object"),
    *_for(("train", "cost"), "--shape zero.json", "must be an integer from 1 to 1,000,000"),
    *_for(("train", "cost"), "--shape stranger.json", "stranger"),
    ("distill", "give the shape of the small network"),
    ("distill --shape stranger.json --transfer none", "stranger"),
    ("evaluate --model resnet20 --weights other.pt", "is not for this network"),
    ("evaluate --model resnet20 --weights evil.pt", "it would import posix.system"),
    ("evaluate --model resnet20", "nothing to evaluate"),
    ("cost --published nobody", "nobody"),
    # budgets and methods
    *_for(("search", "prune", "compare"), "--budget abc", "abc"),
    *_for(("search", "prune", "compare"), "--budget 0", "0"),
    *_for(("search", "prune", "compare"), "--budget -1", "-1"),
    *_for(("search", "prune", "compare"), "--budget nan", "nan"),
    *_for(("search", "prune", "compare"), "--budget 0.0001", "this network can have"),
    *_for(("search", "prune", "compare"), "--tolerance 2", "tolerance must be"),
    *_for(("search", "prune", "compare"), "--at-most macs", "macs"),
    *_for(("search", "prune", "compare"), "--divisor x", "divisor"),
    *_for(("search", "prune", "compare"), "--ratios 0.5,1.0", "separate them by spaces"),
    *_for(("search", "prune", "compare"), "--ratios 0.25 0.5 2", "add 1 to (0.25, 0.5, 2.0)"),
    *_for(("search", "prune", "compare"), "--ratios 0", "ratios"),
    *_for(("search", "prune", "compare"), "--leaf nobody", "no module 'nobody'"),
    ("prune --method nobody", "nobody"),
    ("prune --method none.py:f", "none.py does not exist"),
    ("compare --methods tas,nobody", "nobody"),
    ("compare --methods ,", "methods must not be empty"),
    ("compare --transfer half", "transfer must be some of"),
    ("compare --seeds 0", "seeds must be at least 1"),
    ("compare --passes 1", "passes must be more"),
    ("sweep --budgets ,", "budgets must not be empty"),
    ("sweep --jobs 0", "jobs must be at least 1"),
]
