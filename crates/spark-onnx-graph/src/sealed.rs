//! What other crates cannot do, each beside the nearest thing that they can: a test that fails
//! to compile for another reason than its twin would show nothing.
