//! Launches that the card or the kernel does not take are refused before anything runs.

use spark_ptx::{
    GlobalMemory as _, LaunchConfig, LaunchError, Limits, MOST_BLOCKS, MOST_LOCAL_BYTES,
    MOST_REGISTER_BYTES, MOST_SHARED_BYTES, MOST_THREADS, Module, OwnedMemory,
};

use crate::support::HEADER;

const KERNEL: &str = "
.extern .shared .align 64 .b8 dyn[];
.global .align 4 .u32 counter;
.visible .entry k(.param .u8 a, .param .u64 b, .param .align 16 .b8 c[20], .param .u16 d)
.maxntid 256
{
.shared .align 8 .b8 tile[1000];
.reg .b32 %r<4>;
mov.u32 %r1, dyn;
ret;
}
.entry fixed() .reqntid 8, 8, 1 { ret; }
";

#[track_caller]
fn refusal(change: impl Fn(&mut LaunchConfig, &mut Vec<u8>, &mut &str)) -> LaunchError {
    let module = Module::load(&format!("{HEADER}{KERNEL}")).unwrap();
    let mut memory = OwnedMemory::new();
    let mut config = LaunchConfig::new([1, 1, 1], [256, 1, 1]);
    config.globals = module.allocate_globals(&mut memory).unwrap();
    let (mut params, mut name) = (vec![0; 38], "k");
    change(&mut config, &mut params, &mut name);
    match module.launch(name, &config, &params, &memory, 1) {
        Ok(report) => panic!("was launched: {report:?}"),
        Err(error) => error,
    }
}

#[test]
fn parameters_stand_at_multiples_of_their_alignment() {
    let module = Module::load(&format!("{HEADER}{KERNEL}")).unwrap();
    let entry = module
        .entries()
        .into_iter()
        .find(|it| it.name == "k")
        .unwrap();
    assert_eq!(entry.parameters, [(0, 1), (8, 8), (16, 20), (36, 2)]);
    assert_eq!((entry.parameter_bytes, entry.shared_bytes), (38, 1000));
    assert_eq!(entry.max_threads, Some(256));
    let blocks = module.entries().into_iter().map(|it| it.required_block);
    assert!(blocks.eq([Some([8, 8, 1]), None]), "fixed, then k");
}

#[test]
fn variables_larger_than_any_test_needs_take_no_memory() {
    for sizes in [&[100_u64 << 30][..], &[1 << 29, 1 << 29, 1]] {
        let variables: String = sizes
            .iter()
            .enumerate()
            .map(|(idx, len)| format!(".global .b8 v{idx}[{len}];\n"))
            .collect();
        let module = Module::load(&format!("{HEADER}{variables}{KERNEL}")).unwrap();
        let mut memory = OwnedMemory::new();
        let refused = module.allocate_globals(&mut memory);
        assert!(
            matches!(refused, Err(LaunchError::Limit { .. })),
            "{refused:?}"
        );
        assert!(memory.allocations().is_empty());
    }
}

#[test]
fn local_memory_and_registers_of_a_block_are_bounded() {
    let launch = |body: &str, threads: u32| {
        let text = format!("{HEADER}.entry k() {{ {body} ret; }}");
        let module = Module::load(&text).unwrap();
        let config = LaunchConfig::new([2, 1, 1], [threads, 1, 1]);
        module.launch("k", &config, &[], &OwnedMemory::new(), 1)
    };
    // The most that a thread has on any card.
    let most = ".local .b8 depot[524288]; .reg .b64 %d<2>; .reg .b32 %r<2>; mov.u64 %d1, depot; mov.u32 %r1, 5;
        st.local.u32 [%d1+524284], %r1; ld.local.u32 %r1, [%d1+524284];";
    assert_eq!(launch(most, 128).unwrap().findings, []);
    let refused = launch(most, 129).unwrap_err();
    let want = LaunchError::LocalMemory {
        bytes_per_thread: 512 << 10,
        threads: 129,
        limit: MOST_LOCAL_BYTES,
    };
    assert_eq!(refused, want);
    let told = refused.to_string();
    assert!(
        told.contains("129 threads") && told.contains("524288 bytes"),
        "{told}"
    );
    // Parameters of calls are of the same memory.
    assert!(matches!(
        launch(".param .align 8 .b8 p[524288];", 1024).unwrap_err(),
        LaunchError::LocalMemory { threads: 1024, .. }
    ));
    let registers = |n_64: u32, n_32: u32| {
        let wide = (0..n_64).map(|n| format!("mov.u64 %d{n}, 1;\n"));
        let narrow = (0..n_32).map(|n| format!("mov.u32 %r{n}, 1;\n"));
        let all: String = wide.chain(narrow).collect();
        format!(".reg .b64 %d<40000>; .reg .b32 %r<40000>; {all}")
    };
    assert_eq!(launch(&registers(10_000, 0), 1024).unwrap().findings, []);
    assert_eq!(
        launch(&registers(30_000, 10_000), 1024).unwrap_err(),
        LaunchError::Limit {
            what: "the number of bytes of all registers of a block",
            got: (8 * 30_000 + 4 * 10_000) * 1024,
            limit: MOST_REGISTER_BYTES,
        }
    );
}

#[test]
fn limits_of_cards_and_kernels() {
    let limit = |error: LaunchError| match error {
        LaunchError::Limit { got, limit, .. } => (got, limit),
        other => panic!("{other}"),
    };
    assert_eq!(
        limit(refusal(|it, _, _| it.block = [257, 1, 1])),
        (257, 256)
    );
    assert_eq!(limit(refusal(|it, _, _| it.block = [1, 1, 65])), (65, 64));
    assert_eq!(
        limit(refusal(|it, _, _| it.grid = [1, 65_536, 1])),
        (65_536, 65_535)
    );
    assert_eq!(limit(refusal(|it, _, _| it.grid = [0, 1, 1])).0, 0);
    let fixed = refusal(|it, params, name| {
        params.clear();
        (it.block, *name) = ([64, 1, 1], "fixed");
    });
    assert_eq!(limit(fixed), (64, 64));
    // 1000 static bytes, then the next multiple of 64.
    let dynamic = |bytes| {
        move |it: &mut LaunchConfig, _: &mut Vec<u8>, _: &mut &str| it.dynamic_shared_bytes = bytes
    };
    assert_eq!(
        limit(refusal(dynamic(99 * 1024 - 1024 + 1))),
        (99 * 1024 + 1, 99 * 1024)
    );
    let module = Module::load(&format!("{HEADER}{KERNEL}")).unwrap();
    let mut memory = OwnedMemory::new();
    let mut config = LaunchConfig::new([1, 1, 1], [256, 1, 1]);
    config.globals = module.allocate_globals(&mut memory).unwrap();
    config.dynamic_shared_bytes = 100 << 10;
    assert!(module.launch("k", &config, &[0; 38], &memory, 1).is_err());
    config.limits = Limits::H200;
    assert!(module.launch("k", &config, &[0; 38], &memory, 1).is_ok());
}

#[test]
fn limits_beyond_all_cards_are_refused_where_the_interpreter_ends() {
    let all = Limits {
        max_threads: u64::MAX,
        max_block: [u32::MAX; 3],
        max_grid: [u32::MAX; 3],
        max_shared_bytes: u64::MAX,
        max_parameter_bytes: u64::MAX,
        n_multiprocessors: 1,
    };
    let module = Module::load(&format!(
        "{HEADER}.extern .shared .align 64 .b8 dyn[]; .entry k() {{ bar.sync 0; ret; }}"
    ))
    .unwrap();
    let launch = |change: &dyn Fn(&mut LaunchConfig)| {
        let mut config = LaunchConfig::new([1, 1, 1], [32, 1, 1]);
        config.limits = all;
        config.budget = 1000;
        change(&mut config);
        module.launch("k", &config, &[], &OwnedMemory::new(), 1)
    };
    let refused = |change: &dyn Fn(&mut LaunchConfig), want: u64| {
        let error = launch(change).unwrap_err();
        assert!(
            matches!(error, LaunchError::Limit { limit, .. } if limit == want),
            "{error}"
        );
    };
    refused(&|it| it.block = [2048, 1, 1], MOST_THREADS);
    refused(&|it| it.block = [u32::MAX; 3], MOST_THREADS);
    refused(&|it| it.grid = [u32::MAX; 3], MOST_BLOCKS);
    refused(&|it| it.dynamic_shared_bytes = u32::MAX, MOST_SHARED_BYTES);
    refused(&|it| it.dynamic_shared_bytes = 1 << 31, MOST_SHARED_BYTES);
    refused(&|it| it.limits.n_multiprocessors = 0, 1);
    assert!(launch(&|it| it.dynamic_shared_bytes = MOST_SHARED_BYTES as u32).is_ok());
    assert!(launch(&|it| it.grid = [i32::MAX as u32, 65_535, 65_535]).is_ok());
}

#[test]
fn names_parameters_and_variables_have_to_fit() {
    assert!(matches!(
        refusal(|_, _, name| *name = "other"),
        LaunchError::UnknownEntry { .. }
    ));
    assert!(matches!(
        refusal(|_, params, _| params.truncate(37)),
        LaunchError::Parameters {
            got: 37,
            want: 38,
            ..
        }
    ));
    assert!(matches!(
        refusal(|it, _, _| it.globals.clear()),
        LaunchError::Globals { got: 0, want: 1 }
    ));
}
