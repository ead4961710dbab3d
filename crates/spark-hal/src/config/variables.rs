//! The variables.

use super::declaration::Declaration;

/// `OPENPILOT_DGX_ENABLED`: whether features of DGX Spark are used where it is one.
pub const DGX_ENABLED: Declaration = Declaration {
    name: "OPENPILOT_DGX_ENABLED",
    accepts: "`0` or `1`",
    default: "1",
    default_meaning: "",
    doc: "`1` uses DGX Spark features when the hardware is there; `0` uses none, and no memory of the kinds \
          `Unified` and `System` on any GPU. What the machine *is* (`is_dgx_spark()`) is reported the same either way.",
};

/// `OPENPILOT_DISABLE_DGX`: the rollback switch, which wins over [`DGX_ENABLED`].
pub const DISABLE_DGX: Declaration = Declaration {
    name: "OPENPILOT_DISABLE_DGX",
    accepts: "`0` or `1`",
    default: "0",
    default_meaning: "",
    doc: "The rollback switch: `1` wins over `OPENPILOT_DGX_ENABLED=1`.",
};

/// `OPENPILOT_DGX_PRECISION`: the number format that models run in.
pub const PRECISION: Declaration = Declaration {
    name: "OPENPILOT_DGX_PRECISION",
    accepts: "`auto`, `fp32`, `fp16`, `bf16`, `fp8`, `int8`, `fp4` (`nvfp4` is the same)",
    default: "auto",
    default_meaning: "",
    doc: "The precision models run in. `auto` is `fp32`, also on a GPU; what \
          the GPU and the installed software would recommend, `sparkpilot info` says; `fp4` only where published figures say \
          that it is faster there (`sparkpilot doctor --load 10s` measures it). `fp4` logs a warning \
          because it is experimental. `int8` needs a calibration of the model, or a file that quantises it: without, a \
          model is refused.",
};

/// `CUDA`: whether a CUDA device may or must be used.
pub const CUDA: Declaration = Declaration {
    name: "CUDA",
    accepts: "`0` or `1`",
    default: "",
    default_meaning: "not set: CUDA is used if it is there",
    doc: "`0` never uses CUDA; `1` requires it: a program on a machine without CUDA ends with an error, \
          whatever `SPARK_DEVICE` says; where CUDA is there, so does one that works on the CPU only, unless \
          `SPARK_DEVICE=cpu` is set or the program is given `--device`. The examples `detect`, `doctor` and `gpu_monitor`, \
          and commands of `sparkpilot` that compute nothing (`info`, `doctor` without `--load` and `--verify`, `cluster`, `monitor`, \
          `logs`, `zoo`, `adapter`, `sim list`, `sim merge`, `sim report`, `completions`, `man`), run all the same, and so do the examples of `spark-ptx`, which read no variable.",
};

/// `SPARK_DEVICE`: the device that work runs on.
pub const DEVICE: Declaration = Declaration {
    name: "SPARK_DEVICE",
    accepts: "`auto`, `cpu`, `cuda`, `cuda:N`",
    default: "auto",
    default_meaning: "",
    doc: "Where work runs: the CPU, the best GPU, or CUDA device number N. A GPU that is asked for \
          here and cannot be had is an error: it is not there, `CUDA=0` is set, or the program works on the \
          CPU only; but not in the programs and commands named above, with `--write-zoo`, nor always in a `Simulator` of a program of \
          one's own ([sim-guide](sim-guide.md#on-a-gpu)). `auto` logs why no GPU could be used; that models run on \
          the CPU anyway is not logged.",
};

/// `SPARK_MEMORY_KIND`: where memory lies that CPU and GPU both use.
pub const MEMORY_KIND: Declaration = Declaration {
    name: "SPARK_MEMORY_KIND",
    accepts: "`auto`, `system`, `unified`, `pinned`",
    default: "auto",
    default_meaning: "",
    doc: "Where buffers lie that CPU and GPU both use: plain, managed or pinned memory. On a GPU that shares the \
          machine's memory and has several of them `auto` measures which is fastest, once per machine, and keeps the figures \
          under `SPARK_CACHE_DIR` (at every opening, where that cannot be written to); elsewhere, and without a cache folder, it goes by what the GPU says of itself ([memory](memory.md#which-kind-shared-buffers-get)). A \
          kind that the GPU does not have logs a warning that names what is used instead. On the CPU it means nothing.",
};

/// `DEBUG`: how much programs log, 0 to 3.
pub const DEBUG: Declaration = Declaration {
    name: "DEBUG",
    accepts: "`0`, `1`, `2`, `3`",
    default: "0",
    default_meaning: "",
    doc: "How much every program logs on stderr, but for the examples of `spark-ptx`: `0` warnings, `1` also information (such as why \
          no GPU is used), `2` also debugging, with the module, `3` everything. The log is \
          coloured where stderr is a terminal and `NO_COLOR` is not set.",
};

/// `SPARK_CACHE_DIR`: where compiled kernels and measurements of memory are kept.
pub const CACHE_DIR: Declaration = Declaration {
    name: "SPARK_CACHE_DIR",
    accepts: "an absolute directory",
    default: "",
    default_meaning: "`$XDG_CACHE_HOME/spark`, else `$HOME/.cache/spark`, else no cache on disk",
    doc: "Compiled kernels, in its folder `kernels`, and how fast kinds of memory are, in `memory`; `finetune` keeps decoded pictures of recorded drives in `pictures`, and samples of a run in a file without a name (without a cache folder, both in `sparkpilot` of the system's temporary one). The directory is made when it is first written to.",
};

/// Every variable, in the order of the page.
pub const DECLARATIONS: [&Declaration; 8] = [
    &DGX_ENABLED,
    &DISABLE_DGX,
    &PRECISION,
    &CUDA,
    &DEVICE,
    &MEMORY_KIND,
    &DEBUG,
    &CACHE_DIR,
];

/// Variables of other software that are only looked at: name and why.
pub const FOREIGN: [(&str, &str); 15] = [
    (
        "HOME",
        "the user's cache and Python packages; the doctor writes `~` for it",
    ),
    ("LOGNAME", "the user's name, which reports leave out"),
    (
        "NO_COLOR",
        "set to anything: programs log, and `sparkpilot monitor` draws, without colours",
    ),
    (
        "TERM",
        "`dumb`: `sparkpilot monitor` writes lines, and draws no screen",
    ),
    ("USER", "the user's name, which reports leave out"),
    ("XDG_CACHE_HOME", "the user's cache"),
    (
        "VIRTUAL_ENV",
        "the Python environment the doctor looks into",
    ),
    ("CONDA_PREFIX", "the same, for conda"),
    (
        "NCCL_CONF_FILE",
        "where NCCL's settings lie, if not in `~/.nccl.conf`",
    ),
    (
        "NCCL_IB_GID_INDEX",
        "whether NCCL is told an identifier of RoCE that moves",
    ),
    ("NCCL_IB_HCA", "whether NCCL knows both halves of a port"),
    (
        "NCCL_SOCKET_IFNAME",
        "whether NCCL is told an interface that is there",
    ),
    (
        "TRITON_PTXAS_PATH",
        "whether Triton uses another ptxas than its own, up to Triton 3.5",
    ),
    ("TRITON_PTXAS_BLACKWELL_PATH", "the same from Triton 3.6 on"),
    (
        "RAY_memory_monitor_refresh_ms",
        "whether Ray's memory monitor is off",
    ),
];
