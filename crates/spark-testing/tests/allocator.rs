//! The counting allocator, as the allocator of this program.

use spark_testing::{Measuring, Watch};

#[global_allocator]
static ALLOCATOR: Measuring = Measuring;

#[test]
fn it_sees_what_this_thread_takes() {
    let watch = Watch::start();
    let list = vec![1u8; 1 << 20];
    assert_eq!(watch.largest(), 1 << 20);
    assert!(watch.peak() >= list.len());
    assert_eq!(watch.held_now(), list.len());
    assert_eq!(watch.requests(), 1);
    drop(list);
    assert_eq!(watch.held_now(), 0);
}
