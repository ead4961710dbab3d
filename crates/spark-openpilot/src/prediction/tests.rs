//! Parsed heads against values worked out by hand, in both layouts of the outputs.

use super::*;
use crate::slices;

#[track_caller]
fn close(got: f32, want: f32) {
    assert!(
        (got - want).abs() <= 1e-5 * (1.0 + want.abs()),
        "got {got}, want {want}"
    );
}

#[test]
fn exponentials_are_limited_from_above_only() {
    close(safe_exp(2.0), 7.389_056);
    close(safe_exp(11.0), 59_874.14);
    close(safe_exp(1000.0), 59_874.14);
    assert_eq!(safe_exp(-1000.0), 0.0);
    close(sigmoid(0.0), 0.5);
    close(sigmoid(-1000.0), 1.0 / 59_875.14);
    assert_eq!(sigmoid(1000.0), 1.0);
}

#[test]
fn softmax_does_not_overflow() {
    // Differences of ln 2 make powers 1, 2, 4 of 7.
    let base = 1000.0;
    let ln2 = std::f32::consts::LN_2;
    let got = softmax(&[base, base + ln2, base + 2.0 * ln2]);
    for (got, want) in got.iter().zip([1.0 / 7.0, 2.0 / 7.0, 4.0 / 7.0]) {
        // f32 holds ln 2 next to 1000 to about 3e-5.
        assert!((got - want).abs() < 1e-4, "got {got}, want {want}");
    }
    assert!(softmax(&[]).is_empty());
}

#[test]
fn a_regression_head_is_means_then_log_deviations() {
    let head = Regression::parse(&[1.0, -2.0, 0.0, 20.0]).expect("an even number");
    assert_eq!(head.mean, [1.0, -2.0]);
    close(head.deviation[0], 1.0);
    close(head.deviation[1], 59_874.14);
    assert!(Regression::parse(&[1.0, 2.0, 3.0]).is_err());
}

#[test]
fn each_selection_takes_its_likeliest_hypothesis() {
    // Two hypotheses of one mean, one log deviation and two selection logits.
    let raw = [10.0, 0.0, 3.0, 1.0, 20.0, 1.0, 2.0, 5.0];
    let head = Regression::parse_hypotheses(&raw, 2, 2).expect("2 x (2 + 2)");
    assert_eq!(head.mean, [10.0, 20.0]);
    close(head.deviation[1], 1.0f32.exp());
    assert!(Regression::parse_hypotheses(&raw[..7], 2, 2).is_err());
    assert!(Regression::parse_hypotheses(&raw, 0, 2).is_err());
}

#[test]
fn vision_heads_are_read_from_their_places() {
    let layout = OutputLayout::of_table(slices::VISION);
    let output: Vec<f32> = (0..1576).map(|i| (i % 7) as f32 - 3.0).collect();
    let vision = VisionPrediction::parse(&layout, &output).expect("a whole output");
    close(vision.meta[0], sigmoid(output[0]));
    assert_eq!(vision.desire_prediction.len(), 4);
    close(vision.desire_prediction[3].iter().sum(), 1.0);
    assert_eq!(vision.pose.mean, output[87..93]);
    close(vision.pose.deviation[0], safe_exp(output[93]));
    assert_eq!(vision.lane_lines.mean, output[117..117 + 264]);
    assert_eq!(vision.road_edges.mean, output[653..653 + 132]);
    assert_eq!(vision.leads.mean, output[917..917 + 72]);
    assert_eq!(vision.lead_probabilities.len(), 3);
    assert_eq!(vision.hidden_state, output[1064..]);
}

#[test]
fn the_earlier_lead_head_picks_hypotheses() {
    let layout = OutputLayout::of_table(slices::VISION_1536);
    let mut output = vec![0.0; 1536];
    // Second hypothesis: 24 means of 7, and the larger logit for the middle selection.
    let lead = 917;
    output[lead + 51..lead + 51 + 24].fill(7.0);
    output[lead + 51 + 48 + 1] = 1.0;
    let vision = VisionPrediction::parse(&layout, &output).expect("a whole output");
    assert_eq!(vision.leads.mean.len(), 72);
    assert_eq!(vision.leads.mean[0], 0.0);
    assert_eq!(vision.leads.mean[24..48], [7.0; 24]);
    assert_eq!(vision.leads.mean[48], 0.0);
}

#[test]
fn the_plan_is_read_in_both_generations() {
    let mut output = vec![0.0; 1000];
    output[3] = 20.0; // speed of the first point
    output[495 + 3] = 2.0; // its log deviation
    output[990] = 1.0;
    let layout = OutputLayout::of_table(slices::POLICY);
    let policy = PolicyPrediction::parse(&layout, &output).expect("a whole output");
    assert_eq!(policy.plan.velocity[0][0], 20.0);
    close(policy.plan_deviation.velocity[0][0], 7.389_056);
    let e = std::f32::consts::E;
    close(policy.desire_state[0], e / (e + 7.0));

    let mut output = vec![0.0; 4968];
    output[3 * 991 + 3] = 30.0;
    output[3 * 991 + 990] = 4.0; // the fourth plan is the likeliest
    let layout = OutputLayout::of_table(slices::POLICY_4968);
    let policy = PolicyPrediction::parse(&layout, &output).expect("a whole output");
    assert_eq!(policy.plan.velocity[0][0], 30.0);
}

#[test]
fn one_output_of_a_merged_network_holds_both_predictions() {
    for (table, plan, lead, desire) in [
        (slices::SUPERCOMBO_2576, 1576, 917, 2566),
        (slices::SUPERCOMBO_2580, 917, 1907, 2054),
    ] {
        let layout = OutputLayout::of_table(table);
        let mut output = vec![0.0; layout.output_len()];
        output[plan + 32 * 15] = 80.0; // metres ahead at the last point
        output[plan + 495 + 32 * 15] = 1.0; // its log deviation
        output[lead + 4] = 25.0; // metres to the first lead 2 s from now
        output[lead + 72 + 4] = -1.0;
        output[desire + 3] = 2.0;
        let policy = PolicyPrediction::parse(&layout, &output).expect("a whole output");
        assert_eq!(policy.plan.position[32][0], 80.0);
        close(policy.plan_deviation.position[32][0], std::f32::consts::E);
        let e2 = 7.389_056;
        close(policy.desire_state[3], e2 / (e2 + 7.0));
        let vision = VisionPrediction::parse(&layout, &output).expect("a whole output");
        assert_eq!(vision.leads.mean[4], 25.0);
        close(vision.leads.deviation[4], 0.367_879_44);
        close(vision.lead_probabilities[2], 0.5);
        assert_eq!(vision.hidden_state.len(), 512);
    }
}

#[test]
fn driver_heads_are_read_per_seat() {
    let layout = OutputLayout::of_table(slices::DRIVER_MONITORING);
    let output: Vec<f32> = (0..551).map(|i| i as f32 / 100.0).collect();
    let driver = DriverPrediction::parse(&layout, &output).expect("a whole output");
    assert_eq!(driver.left.face.mean, output[..6]);
    close(driver.left.face_probability, sigmoid(0.12));
    close(driver.left.phone_probability, sigmoid(0.18));
    assert_eq!(driver.right.face.mean, output[19..25]);
    close(driver.right.blink_probabilities[1], sigmoid(0.35));
    close(driver.wheel_on_right, sigmoid(0.38));
}
