//! That every view lies inside its buffer: what the unsafe code of executors stands on.
//!
//! ```text
//! first element   offset + sum over axes of min(0, (extent - 1) * stride)   not below 0
//! last element    offset + sum over axes of max(0, (extent - 1) * stride)   below the buffer's length
//! ```
//!
//! An executor calls [`Plan::check_views`] once, when it is made, before it makes a pointer of a view
//! or hands one to a kernel, and changes no view afterwards. Then a kernel may read and write any
//! element of a step's views by indices that are inside the view's extents, on whatever device the
//! buffer is, if it has as many elements there as the plan says.
//!
//! Deliberately absent: what kernels promise each other about strides, which stands at each step
//! (`plan::step`), and indices that are known only while running.

use super::{Plan, View};
use crate::error::ViewOutside;

impl Plan {
    /// Checks every view of every step and port.
    ///
    /// # Errors
    ///
    /// [`ViewOutside`] names the first step or port with a view that reaches outside its buffer.
    pub(crate) fn check_views(&self) -> Result<(), ViewOutside> {
        for planned in &self.steps {
            for view in planned.step.views_read() {
                self.check_view(&planned.name, view)?;
            }
            for view in planned.step.views_written() {
                self.check_view(&planned.name, view)?;
            }
        }
        for port in self.inputs.iter().chain(&self.outputs) {
            self.check_view(&port.name, &port.view)?;
        }
        Ok(())
    }

    /// Checks one view, which belongs to the step or port called `name`.
    fn check_view(&self, name: &str, view: &View) -> Result<(), ViewOutside> {
        if view.is_empty() {
            return Ok(());
        }
        let (mut low, mut high) = (view.offset as isize, view.offset as isize);
        for axis in &view.axes {
            let reach = (axis.extent as isize - 1) * axis.stride;
            low += reach.min(0);
            high += reach.max(0);
        }
        let len = self.buffers[view.buffer.0].len;
        if low < 0 || high >= len as isize {
            return Err(ViewOutside {
                step: name.to_owned(),
                needed: high + 1,
                len,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::bind;
    use crate::plan::{Plan, lower};
    use crate::tests::networks::attentive;

    fn plan() -> Plan {
        lower(&bind(&attentive(), &[]).expect("fixed shapes")).expect("lowers")
    }

    #[test]
    fn a_lowered_plan_has_its_views_in_their_buffers() {
        plan().check_views().expect("consistent");
    }

    #[test]
    fn a_view_one_element_too_far_is_refused_with_its_step() {
        let mut plan = plan();
        let step = plan.steps.len() - 1;
        let buffer = plan.steps[step].step.views_written()[0].buffer.0;
        plan.buffers[buffer].len -= 1;
        let error = plan.check_views().unwrap_err();
        assert_eq!(error.needed, error.len as isize + 1);
    }

    #[test]
    fn a_view_that_begins_before_its_buffer_is_refused() {
        let mut plan = plan();
        let mut views = plan.steps[0].step.views_mut();
        let axes = &mut views[0].axes;
        axes.iter_mut().for_each(|axis| axis.stride = -axis.stride);
        plan.check_views().unwrap_err();
    }
}
