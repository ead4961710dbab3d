//! Tokens are what detection finds, by any way to them.

use super::*;

#[test]
fn what_is_available_is_found_by_name_and_the_portable_set_is_last() {
    let available = Isa::available();
    assert_eq!(available.first(), Some(&Isa::detect()));
    assert_eq!(available.last(), Some(&Isa::portable()));
    for isa in available {
        assert_eq!(Isa::named(isa.name()), Ok(isa));
        assert_eq!(isa.name().parse(), Ok(isa));
    }
}

#[test]
fn a_set_that_is_not_there_is_an_error_that_names_those_that_are() {
    // On any processor one of these is of another architecture.
    let refused = ["avx512", "avx2", "neon", "sse9"].map(Isa::named);
    let refused: Vec<IsaUnavailable> = refused.into_iter().filter_map(Result::err).collect();
    assert!(refused.len() >= 2, "{refused:?}");
    for error in refused {
        let text = error.to_string();
        assert!(text.contains(Isa::detect().name()), "{text}");
        assert!(text.contains("scalar"), "{text}");
    }
}

#[test]
fn a_set_that_the_processor_lacks_makes_no_token() {
    for set in InstructionSet::ALL {
        let token = Isa::of(set);
        assert_eq!(token.is_some(), set.is_present(), "{set:?}");
        assert_eq!(Isa::named(set.name()).is_ok(), set.is_present(), "{set:?}");
        assert!(set.is_built() || !set.is_present(), "{set:?}");
    }
}
