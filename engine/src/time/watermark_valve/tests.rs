use super::WatermarkStatus::{Active, Idle};
use super::*;

const QUIET: ValveOutput = ValveOutput { watermark: None, status: None };

fn watermark(watermark: i64) -> ValveOutput {
    ValveOutput { watermark: Some(watermark), status: None }
}

#[test]
fn the_least_watermark_of_all_inputs_goes_on() {
    let mut valve = WatermarkValve::new(2);
    assert_eq!(valve.on_watermark(0, 10), QUIET);
    assert_eq!(valve.on_watermark(1, 5), watermark(5));
    assert_eq!(valve.on_watermark(1, 20), watermark(10));
    assert_eq!(valve.on_watermark(1, 15), QUIET, "watermarks never fall");
}

#[test]
fn an_idle_input_is_not_waited_for_until_it_is_active_again() {
    let mut valve = WatermarkValve::new(2);
    valve.on_watermark(0, 10);
    assert_eq!(valve.on_status(1, Idle), watermark(10));
    assert_eq!(valve.on_watermark(0, 20), watermark(20));
    assert_eq!(valve.on_status(1, Active), QUIET);
    assert_eq!(valve.on_watermark(0, 30), QUIET);
    assert_eq!(valve.on_watermark(1, 25), watermark(25));
}

#[test]
fn when_all_inputs_are_idle_the_stream_is_and_the_farthest_decides() {
    let mut valve = WatermarkValve::new(2);
    valve.on_watermark(0, 10);
    valve.on_watermark(1, 30);
    assert_eq!(valve.on_status(0, Idle), watermark(30));
    assert_eq!(valve.on_status(1, Idle), ValveOutput { watermark: None, status: Some(Idle) });
    assert_eq!(valve.on_status(0, Active), ValveOutput { watermark: None, status: Some(Active) });
}

#[test]
fn an_ended_input_holds_nothing_back_and_does_not_end_the_others() {
    let mut valve = WatermarkValve::new(2);
    valve.on_watermark(0, 10);
    valve.on_watermark(1, 5);
    assert_eq!(valve.on_end(1), watermark(10));
    assert_eq!(valve.on_status(0, Idle), ValveOutput { watermark: None, status: Some(Idle) });
}
