//! A token is there if and only if its features are, and only for the set it belongs to.

use super::*;

#[test]
fn a_proof_is_of_its_set_and_the_token_of_its_own_type_agrees() {
    for isa in Isa::available() {
        let set = match isa.proof() {
            Proof::Scalar => InstructionSet::Scalar,
            #[cfg(target_arch = "aarch64")]
            Proof::Neon(_) => InstructionSet::Neon,
            #[cfg(target_arch = "x86_64")]
            Proof::Avx2(_) => InstructionSet::Avx2,
            #[cfg(target_arch = "x86_64")]
            Proof::Avx512(_) => InstructionSet::Avx512,
        };
        assert_eq!(set, isa.set());
        assert_eq!(Avx2::of(isa).is_some(), set == InstructionSet::Avx2);
        assert_eq!(Avx512::of(isa).is_some(), set == InstructionSet::Avx512);
        assert_eq!(Neon::of(isa).is_some(), set == InstructionSet::Neon);
    }
}

/// Every token with the set it belongs to and whether the processor has it.
fn tokens(isa: Isa) -> Vec<(&'static [&'static str], InstructionSet, bool)> {
    macro_rules! list {
        ($($name:ident: $set:ident),+) => {
            vec![$(($name::FEATURES, InstructionSet::$set, $name::of(isa).is_some())),+]
        };
    }
    list!(
        Avx2: Avx2, AvxVnni: Avx2, Avx512: Avx512, Avx512Vnni: Avx512, Avx512Bytes: Avx512,
        Avx512Bf16: Avx512, Neon: Neon, NeonDot: Neon, NeonI8mm: Neon, NeonBf16: Neon,
        NeonFhm: Neon
    )
}

/// What the system says this processor has, by its own names, where it does.
fn listed() -> Option<Vec<String>> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let names = ["flags", "Features"];
    let line = text
        .lines()
        .find(|line| names.iter().any(|name| line.starts_with(name)))?;
    let (_, features) = line.split_once(':')?;
    Some(features.split_whitespace().map(str::to_owned).collect())
}

/// The names of the system for those of the compiler.
fn system_name(feature: &str) -> &str {
    match feature {
        "avx512bf16" => "avx512_bf16",
        "avx512vbmi2" => "avx512_vbmi2",
        "avx512vnni" => "avx512_vnni",
        "avxvnni" => "avx_vnni",
        "neon" => "asimd",
        "dotprod" => "asimddp",
        "fp16" => "asimdhp",
        "fhm" => "asimdfhm",
        other => other,
    }
}

#[test]
fn tokens_are_those_whose_features_the_system_lists() {
    // Under an emulator the file is that of the machine below it.
    let Some(listed) = listed().filter(|_| std::env::var_os("SPARK_EMULATED_CPU").is_none()) else {
        return;
    };
    for set in InstructionSet::ALL {
        let Some(isa) = Isa::of(set) else { continue };
        for (features, of_set, is_there) in tokens(isa) {
            let has = |feature: &&str| listed.iter().any(|name| name == system_name(feature));
            let wanted = of_set == set && features.iter().all(has);
            assert_eq!(is_there, wanted, "{features:?} of {set:?}");
        }
    }
}

#[test]
fn code_for_a_lesser_set_gets_no_token_of_a_greater_one() {
    for isa in Isa::available() {
        for (features, of_set, is_there) in tokens(isa) {
            assert!(!is_there || of_set == isa.set(), "{features:?} of {isa}");
        }
    }
    assert!(
        tokens(Isa::portable())
            .iter()
            .all(|(_, _, is_there)| !is_there)
    );
}
