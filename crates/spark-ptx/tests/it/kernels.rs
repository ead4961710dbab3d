//! Whole kernels: parsed, launched, compared with what they should compute.

use spark_ptx::{LaunchConfig, Module, OwnedMemory};

use crate::support::{HEADER, kernel, launch, params, warp};

/// As NVRTC 13 writes `out[i] = a[i] + b[i]`, for compute_80.
const ADD: &str = "
.visible .entry add(
	.param .u64 add_param_0,
	.param .u64 .ptr .align 1 add_param_1,
	.param .u64 add_param_2,
	.param .u32 add_param_3
)
.maxntid 256, 1, 1
{
	.reg .pred 	%p<2>;
	.reg .f32 	%f<4>;
	.reg .b32 	%r<6>;
	.reg .b64 	%rd<11>;

	ld.param.u64 	%rd1, [add_param_0];
	ld.param.u64 	%rd2, [add_param_1];
	ld.param.u64 	%rd3, [add_param_2];
	ld.param.u32 	%r2, [add_param_3];
	mov.u32 	%r3, %ctaid.x;
	mov.u32 	%r4, %ntid.x;
	mov.u32 	%r5, %tid.x;
	mad.lo.s32 	%r1, %r3, %r4, %r5;
	setp.ge.u32 	%p1, %r1, %r2;
	@%p1 bra 	$L__BB0_2;

	cvta.to.global.u64 	%rd4, %rd2;
	mul.wide.u32 	%rd5, %r1, 4;
	add.s64 	%rd6, %rd4, %rd5;
	cvta.to.global.u64 	%rd7, %rd3;
	add.s64 	%rd8, %rd7, %rd5;
	ld.global.f32 	%f1, [%rd8];
	ld.global.f32 	%f2, [%rd6];
	add.f32 	%f3, %f2, %f1;
	cvta.to.global.u64 	%rd9, %rd1;
	add.s64 	%rd10, %rd9, %rd5;
	st.global.f32 	[%rd10], %f3;

$L__BB0_2:
	ret;

}
";

#[test]
fn vectors_are_added_whatever_the_threads_and_the_seed() {
    let module = Module::load(&format!("{HEADER}{ADD}")).unwrap();
    let n = 1000usize;
    let a: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let b: Vec<f32> = (0..n).map(|i| 0.5 * i as f32).collect();
    for (seed, n_threads) in [(0, 1), (1, 2), (7, 5)] {
        let mut memory = OwnedMemory::new();
        let out = memory.allocate(4 * n);
        let (a_at, b_at) = (memory.allocate_f32(&a), memory.allocate_f32(&b));
        let mut params = params(&[out, a_at, b_at]);
        params.extend((n as u32).to_le_bytes());
        let mut config = LaunchConfig::new([n.div_ceil(96) as u32, 1, 1], [96, 1, 1]);
        config.seed = seed;
        let report = module
            .launch("add", &config, &params, &memory, n_threads)
            .unwrap();
        assert_eq!(report.findings, []);
        assert!(report.instructions > 300);
        let want: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        assert_eq!(memory.read_f32(out, n), want);
    }
}

#[test]
fn lanes_part_and_meet_again() {
    // Collatz steps: every lane loops as long as it needs, then all of them shuffle.
    let body = "
ld.global.u32 %r1, [%d31];
add.u32 %r1, %r30, 1;
mov.u32 %r2, 0;
LOOP:
setp.eq.u32 %p1, %r1, 1;
@%p1 bra END;
and.b32 %r3, %r1, 1;
setp.eq.u32 %p2, %r3, 0;
@%p2 bra EVEN;
mad.lo.u32 %r1, %r1, 3, 1;
bra JOIN;
EVEN:
shr.u32 %r1, %r1, 1;
JOIN:
add.u32 %r2, %r2, 1;
bra LOOP;
END:
shfl.sync.bfly.b32 %r4, %r2, 1, 31, -1;
add.u64 %d1, %d30, %d29;
st.global.u32 [%d1], %r4;";
    let steps = |mut n: u32| {
        let mut count = 0;
        while n != 1 {
            n = if n & 1 == 0 { n / 2 } else { 3 * n + 1 };
            count += 1;
        }
        count
    };
    let want: Vec<u32> = (0..32u32).map(|lane| steps((lane ^ 1) + 1)).collect();
    assert_eq!(warp("", body, &[0], 32), want);
}

#[test]
fn variables_of_one_name_in_two_scopes_are_two() {
    let function = ".func f() { .reg .b32 %r<4>; .reg .b64 %d<4>; mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra END;
        { .shared .align 4 .b8 s[4]; mov.u64 %d1, s; } { .shared .align 4 .b8 s[4]; mov.u64 %d2, s; }
        sub.u64 %d3, %d2, %d1; cvt.u32.u64 %r2, %d3; mov.u64 %d1, result; st.global.u32 [%d1], %r2; END: ret; }\n";
    let function = function.replace(".reg .b64", ".reg .pred %p<2>; .reg .b64");
    let text = kernel(
        "",
        "call f; bar.sync 0; mov.u64 %d1, result; ld.global.u32 %r1, [%d1]; add.u64 %d2, %d30, %d29; st.global.u32 [%d2], %r1;",
    );
    let text = text.replacen(
        HEADER,
        &format!("{HEADER}.global .align 4 .u32 result;\n{function}"),
        1,
    );
    let (out, report) = launch(&text, (1, 32), 0, &[0], 32);
    assert_eq!((report.findings, out), (vec![], vec![4; 32]));
}

#[test]
fn functions_call_themselves_and_are_called_by_address() {
    let functions = "
.func (.param .b32 result) factorial(.param .b32 n)
{
.reg .pred %p<2>; .reg .b32 %r<5>;
ld.param.u32 %r1, [n];
setp.gt.u32 %p1, %r1, 1;
@%p1 bra MORE;
st.param.b32 [result], 1;
ret;
MORE:
sub.u32 %r2, %r1, 1;
{ .param .b32 p0; st.param.b32 [p0], %r2; .param .b32 r0;
call.uni (r0), factorial, (p0);
ld.param.b32 %r3, [r0]; }
mul.lo.u32 %r4, %r1, %r3;
st.param.b32 [result], %r4;
ret;
}
.func (.param .b32 result) twice(.param .b32 n)
{
.reg .b32 %r<3>;
ld.param.u32 %r1, [n];
shl.b32 %r2, %r1, 1;
st.param.b32 [result], %r2;
}
";
    let body = "
and.b32 %r1, %r30, 1;
setp.eq.u32 %p1, %r1, 1;
mov.u64 %d1, factorial;
mov.u64 %d2, twice;
selp.b64 %d3, %d1, %d2, %p1;
and.b32 %r2, %r30, 7;
{ .param .b32 p0; st.param.b32 [p0], %r2; .param .b32 r0;
proto : .callprototype (.param .b32 _) _ (.param .b32 _);
call (r0), %d3, (p0), proto;
ld.param.b32 %r3, [r0]; }
add.u64 %d4, %d30, %d29;
st.global.u32 [%d4], %r3;";
    let ptx = kernel("", body).replacen(HEADER, &format!("{HEADER}{functions}"), 1);
    let (out, report) = launch(&ptx, (1, 32), 0, &[0], 32);
    assert_eq!(report.findings, []);
    let want = |lane: u32| match (lane % 2, lane % 8) {
        (1, n) => (1..=n).product(),
        (_, n) => 2 * n,
    };
    assert_eq!(out, (0..32).map(want).collect::<Vec<u32>>());
}

#[test]
fn local_memory_and_its_generic_addresses() {
    let declarations = ".local .align 16 .b8 depot[64];\n.reg .b64 %SP; .reg .b64 %SPL;";
    let body = "
mov.u64 %SPL, depot;
cvta.local.u64 %SP, %SPL;
st.local.u32 [%SPL+4], %r30;
ld.u32 %r1, [%SP+4];
st.u8 [%SP+9], %r1;
ld.local.u8 %h1, [%SPL+9];
cvt.u32.u16 %r2, %h1;
isspacep.local %p1, %SP;
selp.u32 %r3, 100, 0, %p1;
add.u32 %r4, %r2, %r3;
add.u64 %d1, %d30, %d29;
st.global.u32 [%d1], %r4;";
    let want: Vec<u32> = (100..132).collect();
    assert_eq!(warp(declarations, body, &[0], 32), want);
}

#[test]
fn inline_assembly_has_names_of_its_own() {
    let body = "
mov.u32 %r1, 5;
// begin inline asm
{ .reg .pred %p1; .reg.b32 a, %r1; setp.eq.u32 %p1, %r30, 3; mov.u32 %r1, 7; selp.u32 a, 1, %r1, %p1;
  @%p1 bra L; add.u32 a, a, 10; L: mov.u32 %r2, a; }
// end inline asm
{ .reg .b32 a; L: add.u32 a, %r2, %r1; mov.u32 %r3, a; }
add.u64 %d1, %d30, %d29;
st.global.u32 [%d1], %r3;";
    let want: Vec<u32> = (0..32).map(|lane| if lane == 3 { 6 } else { 22 }).collect();
    assert_eq!(warp("", body, &[0], 32), want);
}

#[test]
fn variables_hold_their_first_values_and_addresses() {
    let globals = "
.const .align 4 .b8 table[12] = {1, 0, 0, 0, 2};
.global .align 4 .u32 counter = 7;
.global .align 8 .u64 pointer = generic(counter);
.global .align 1 .b8 $str[4] = {104, 105};
";
    let body = "
mov.u64 %d1, table;
ld.const.u32 %r1, [%d1+4];
ld.const.u32 %r2, [table];
ld.global.u64 %d2, [pointer];
ld.u32 %r3, [%d2];
ld.global.u8 %r4, [$str+1];
add.u32 %r5, %r1, %r2;
add.u32 %r5, %r5, %r3;
add.u32 %r5, %r5, %r4;
st.global.u32 [%d30], %r5;
red.global.add.u32 [counter], 1;
bar.warp.sync -1;
ld.global.u32 %r6, [counter];
st.global.u32 [%d30+4], %r6;";
    let ptx = kernel("", body).replacen(HEADER, &format!("{HEADER}{globals}"), 1);
    let (out, report) = launch(&ptx, (1, 32), 0, &[0], 2);
    assert_eq!(report.findings, []);
    assert_eq!(out, [2 + 1 + 7 + 105, 7 + 32]);
}

#[test]
fn blocks_reduce_through_dynamic_shared_memory() {
    let ptx = kernel(
        "",
        "
mov.u32 %r20, %ctaid.x;
mov.u32 %r21, %ntid.x;
mad.lo.u32 %r22, %r20, %r21, %r30;
mul.wide.u32 %d1, %r22, 4;
add.u64 %d1, %d31, %d1;
ld.global.u32 %r1, [%d1];
mov.u64 %d2, dyn;
add.u64 %d3, %d2, %d29;
st.shared.u32 [%d3], %r1;
mov.u32 %r2, %r21;
LOOP:
shr.u32 %r2, %r2, 1;
bar.sync 0;
setp.ge.u32 %p1, %r30, %r2;
@%p1 bra SKIP;
mul.wide.u32 %d4, %r2, 4;
add.u64 %d4, %d3, %d4;
ld.shared.u32 %r3, [%d4];
ld.shared.u32 %r4, [%d3];
add.u32 %r4, %r4, %r3;
st.shared.u32 [%d3], %r4;
SKIP:
setp.gt.u32 %p2, %r2, 1;
@%p2 bra LOOP;
setp.ne.u32 %p3, %r30, 0;
@%p3 bra DONE;
mul.wide.u32 %d5, %r20, 4;
add.u64 %d5, %d30, %d5;
ld.shared.u32 %r5, [dyn];
st.global.u32 [%d5], %r5;
DONE:",
    )
    .replacen(
        HEADER,
        &format!("{HEADER}.extern .shared .align 16 .b8 dyn[];\n"),
        1,
    );
    let module = Module::load(&ptx).unwrap();
    for seed in 0..20 {
        let mut memory = OwnedMemory::new();
        let out = memory.allocate(4 * 5);
        let input: Vec<u32> = (0..5 * 256).collect();
        let given = memory.allocate_u32(&input);
        let mut config = LaunchConfig::new([5, 1, 1], [256, 1, 1]);
        (config.seed, config.dynamic_shared_bytes) = (seed, 1024);
        let report = module
            .launch("k", &config, &params(&[out, given]), &memory, 2)
            .unwrap();
        assert_eq!(report.findings, []);
        let want: Vec<u32> = input.chunks(256).map(|part| part.iter().sum()).collect();
        assert_eq!(memory.read_u32(out, 5), want);
    }
}
