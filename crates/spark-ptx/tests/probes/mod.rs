//! Probes: small programs of one instruction each, for the interpreter and for a GPU.
//!
//! ```text
//! thread i   input word w at (w * threads + i)   -->  instruction  -->   output word w likewise
//! ```
//!
//! What a GPU answers is the truth about its arithmetic; the manual leaves out much of it. Inputs
//! come from a generator with a fixed seed, so the same probe has the same bytes everywhere.

pub(crate) mod arithmetic;
pub(crate) mod inputs;
pub(crate) mod memory;
pub(crate) mod tensor;

use spark_ptx::{LaunchConfig, Limits, Module, OwnedMemory, Target};

/// One program with its inputs.
#[derive(Debug, Clone)]
pub(crate) struct Probe {
    /// Unique; letters, digits, dots and underscores.
    pub(crate) name: String,
    /// What follows the loads and precedes the stores: reads `%i0`, `%i1`, … and writes `%o0`, ….
    pub(crate) body: String,
    /// Declarations of the module, such as shared memory.
    pub(crate) declarations: String,
    pub(crate) threads: u32,
    pub(crate) blocks: u32,
    pub(crate) inputs: Vec<u32>,
    pub(crate) n_in: usize,
    pub(crate) n_out: usize,
    pub(crate) agreement: Agreement,
}

/// How near a GPU's answer must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Agreement {
    /// Every bit.
    Bits,
    /// Every bit, but any NaN for a NaN of f32; likewise of f64 in two words, of halves.
    Nan32,
    Nan64,
    NanF16,
    NanBf16,
    /// f32 within this many units in the last place, or this absolute distance; any NaN for a NaN.
    Near {
        ulps: u32,
        absolute: f32,
    },
    /// The manual leaves it open: shown, not judged.
    Open,
}

impl Probe {
    /// A probe of full warps whose inputs fill the threads; `inputs` are word by word.
    pub(crate) fn new(name: &str, body: &str, inputs: Vec<u32>, n_in: usize, n_out: usize) -> Self {
        let all = (inputs.len() / n_in.max(1)) as u32;
        let threads = all.min(128);
        assert_eq!(all % threads, 0, "{name}: {all} threads");
        assert_eq!(inputs.len() % n_in.max(1), 0, "{name}");
        Self {
            name: name.to_owned(),
            body: body.to_owned(),
            declarations: String::new(),
            threads,
            blocks: all / threads,
            inputs,
            n_in,
            n_out,
            agreement: Agreement::Bits,
        }
    }

    pub(crate) fn agreeing(mut self, agreement: Agreement) -> Self {
        self.agreement = agreement;
        self
    }

    pub(crate) fn declaring(mut self, declarations: &str) -> Self {
        self.declarations = declarations.to_owned();
        self
    }

    /// Blocks of this many threads.
    pub(crate) fn by_blocks(mut self, threads: u32) -> Self {
        let all = self.threads * self.blocks;
        assert_eq!(all % threads, 0, "{}", self.name);
        (self.threads, self.blocks) = (threads, all / threads);
        self
    }

    pub(crate) fn output_words(&self) -> usize {
        self.n_out * (self.threads * self.blocks) as usize
    }

    /// The module's text.
    pub(crate) fn ptx(&self, target: Target) -> String {
        let all = self.threads * self.blocks;
        let names = |letter: char, n: usize| {
            let names: Vec<String> = (0..n).map(|idx| format!("%{letter}{idx}")).collect();
            names.join(", ")
        };
        let mut text = format!(
            ".version 8.8\n.target {target}\n.address_size 64\n{}\n.visible .entry probe(.param .u64 input, .param .u64 output)\n{{\n",
            self.declarations
        );
        if self.n_in > 0 {
            text += &format!(".reg .b32 {};\n", names('i', self.n_in));
        }
        text += &format!(
            ".reg .b32 {};\n.reg .b32 %tid0, %cta0, %number;\n.reg .b64 %in0, %out0, %step0;\n",
            names('o', self.n_out)
        );
        text += "ld.param.u64 %in0, [input];\nld.param.u64 %out0, [output];\n\
                 cvta.to.global.u64 %in0, %in0;\ncvta.to.global.u64 %out0, %out0;\n\
                 mov.u32 %tid0, %tid.x;\nmov.u32 %cta0, %ctaid.x;\n";
        text += &format!(
            "mad.lo.u32 %number, %cta0, {}, %tid0;\nmul.wide.u32 %step0, %number, 4;\n\
             add.u64 %in0, %in0, %step0;\nadd.u64 %out0, %out0, %step0;\n",
            self.threads
        );
        for idx in 0..self.n_in {
            text += &format!("ld.global.b32 %i{idx}, [%in0+{}];\n", 4 * idx as u32 * all);
        }
        text += &format!("{{\n{}\n}}\n", self.body);
        for idx in 0..self.n_out {
            text += &format!("st.global.b32 [%out0+{}], %o{idx};\n", 4 * idx as u32 * all);
        }
        text + "ret;\n}\n"
    }

    /// What the interpreter answers.
    pub(crate) fn interpret(&self, target: Target) -> Result<Vec<u32>, String> {
        let module = Module::load(&self.ptx(target)).map_err(|error| error.to_string())?;
        let mut memory = OwnedMemory::new();
        let input = memory.allocate(4 * self.inputs.len().max(1));
        let bytes: Vec<u8> = self
            .inputs
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        memory.write(input, &bytes);
        let output = memory.allocate(4 * self.output_words());
        let mut config = LaunchConfig::new([self.blocks, 1, 1], [self.threads, 1, 1]);
        config.limits = Limits::H200;
        config.globals = module.allocate_globals(&mut memory).unwrap();
        let parameters = [input.to_le_bytes(), output.to_le_bytes()].concat();
        let report = module.launch("probe", &config, &parameters, &memory, 2);
        let report = report.map_err(|error| error.to_string())?;
        if let Some(finding) = report.findings.first() {
            return Err(finding.to_string());
        }
        Ok(memory.read_u32(output, self.output_words()))
    }

    /// Word by word where the answers differ by more than they may.
    pub(crate) fn differences(&self, got: &[u32], want: &[u32]) -> Vec<usize> {
        let (got, want) = (self.with_one_nan(got), self.with_one_nan(want));
        let near = |a: u32, b: u32| {
            let (x, y) = (f32::from_bits(a), f32::from_bits(b));
            match self.agreement {
                Agreement::Near { ulps, absolute } => {
                    let apart = ordered(a).abs_diff(ordered(b));
                    apart <= u64::from(ulps) || (x - y).abs() <= absolute
                }
                Agreement::Open => true,
                _ => a == b,
            }
        };
        let pairs = got.iter().zip(&want).enumerate();
        pairs
            .filter(|(_, (a, b))| !near(**a, **b))
            .map(|(at, _)| at)
            .collect()
    }

    /// The answers with the same NaN for every one, where the manual leaves open what it holds.
    pub(crate) fn with_one_nan(&self, answers: &[u32]) -> Vec<u32> {
        let mut words = answers.to_vec();
        let halves = |word: u32, infinity: u32| {
            let one = |half: u32| {
                if half & 0x7FFF > infinity {
                    0x7FFF
                } else {
                    half
                }
            };
            one(word & 0xFFFF) | one(word >> 16) << 16
        };
        match self.agreement {
            Agreement::Nan32 | Agreement::Near { .. } => {
                for word in words
                    .iter_mut()
                    .filter(|word| f32::from_bits(**word).is_nan())
                {
                    *word = 0x7FFF_FFFF;
                }
            }
            Agreement::NanF16 => words
                .iter_mut()
                .for_each(|word| *word = halves(*word, 0x7C00)),
            Agreement::NanBf16 => words
                .iter_mut()
                .for_each(|word| *word = halves(*word, 0x7F80)),
            Agreement::Nan64 => {
                let (low, high) = words.split_at_mut(answers.len() / 2);
                for (low, high) in low.iter_mut().zip(high) {
                    if f64::from_bits(u64::from(*high) << 32 | u64::from(*low)).is_nan() {
                        (*low, *high) = (0, 0x7FF8_0000);
                    }
                }
            }
            Agreement::Bits | Agreement::Open => {}
        }
        words
    }

    /// FNV-1a of the answers, where every bit of them is promised but those of NaN.
    pub(crate) fn hash(&self, answers: &[u32]) -> Option<u64> {
        if matches!(self.agreement, Agreement::Near { .. } | Agreement::Open) {
            return None;
        }
        let words = self.with_one_nan(answers);
        let bytes = words.iter().flat_map(|word| word.to_le_bytes());
        Some(bytes.fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
        }))
    }
}

/// Bits of f32 as a number that grows with the value.
fn ordered(bits: u32) -> i64 {
    let size = i64::from(bits & 0x7FFF_FFFF);
    if bits >> 31 == 1 { -size } else { size }
}

/// Every probe that a target has.
pub(crate) fn all(target: Target) -> Vec<Probe> {
    let mut probes = tensor::all(target);
    probes.extend(arithmetic::all(target));
    probes.extend(memory::all(target));
    probes
}
