use proptest::prelude::*;

use super::*;

fn values(ticks: &[Tick]) -> Vec<f64> {
    ticks.iter().map(|tick| tick.value).collect()
}

fn labels(ticks: &[Tick]) -> Vec<&str> {
    ticks.iter().map(|tick| tick.label.as_str()).collect()
}

#[test]
fn ticks_are_round_and_inside() {
    assert_eq!(values(&linear_ticks((0.0, 100.0), 5)), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
    assert_eq!(labels(&linear_ticks((0.0, 0.35), 4)), ["0.0", "0.1", "0.2", "0.3"]);
    assert_eq!(labels(&linear_ticks((0.0, 12_000.0), 3)), ["0", "5\u{202f}000", "10\u{202f}000"]);
    assert_eq!(values(&linear_ticks((3.0, 3.0), 5)), [3.0]);
}

#[test]
fn logarithmic_ticks_are_powers_and_more_where_there_is_room() {
    assert_eq!(
        labels(&log_ticks((0.01, 1000.0))),
        ["0.01", "0.1", "1", "10", "100", "1\u{202f}000"]
    );
    assert_eq!(labels(&log_ticks((0.1, 2.0))), ["0.1", "0.2", "0.3", "0.5", "0.7", "1", "2"]);
    assert_eq!(labels(&log_ticks((0.1, 10.0))), ["0.1", "0.2", "0.5", "1", "2", "5", "10"]);
}

#[test]
fn scales_map_ends_to_ends() {
    let scale = Scale::linear((10.0, 20.0), (100.0, 0.0));
    assert_eq!(
        (scale.position(10.0), scale.position(15.0), scale.position(20.0)),
        (100.0, 50.0, 0.0)
    );
    let scale = Scale::logarithmic((1.0, 100.0), (0.0, 10.0));
    assert!((scale.position(10.0) - 5.0).abs() < 1e-9);
    assert_eq!(scale.position(0.0), 0.0);
    assert!(Scale::linear((5.0, 5.0), (0.0, 10.0)).position(5.0).is_finite());
}

#[test]
fn what_others_wrote_cannot_leave_its_text() {
    assert_eq!(escape(r#"<b a="1">&'"#), "&lt;b a=&quot;1&quot;&gt;&amp;&#39;");
    assert_eq!(escape("a\u{0}\u{1b}b"), "a\u{fffd}\u{fffd}b");
    assert!(matches!(escape("plain é"), std::borrow::Cow::Borrowed(_)));
}

#[test]
fn dots_on_one_place_are_drawn_once() {
    let mut canvas = Canvas::default();
    canvas.dots("ok", &[(1.0, 2.0), (1.1, 2.1), (5.0, 2.0)]);
    assert_eq!(canvas.into_elements(), "<path class=\"ok\" d=\"m1 2h0m4 0h0\"/>\n");
}

/// Stopping distances of cars by speed (Ezekiel, 1930), with the fits in R's manual page of
/// `predict.loess`. R interpolates between exact fits, so the last digits differ.
#[test]
fn the_smoother_agrees_with_r() {
    const SPEED: [u8; 50] = [
        4, 4, 7, 7, 8, 9, 10, 10, 10, 11, 11, 12, 12, 12, 12, 13, 13, 13, 13, 14, 14, 14, 14, 15,
        15, 15, 16, 16, 17, 17, 17, 18, 18, 18, 18, 19, 19, 19, 20, 20, 20, 20, 20, 22, 23, 24, 24,
        24, 24, 25,
    ];
    const DISTANCE: [u8; 50] = [
        2, 10, 4, 22, 16, 10, 18, 26, 34, 17, 28, 14, 20, 24, 28, 26, 34, 34, 46, 26, 36, 60, 80,
        20, 26, 54, 32, 40, 32, 40, 50, 42, 56, 76, 84, 36, 46, 68, 32, 48, 52, 56, 64, 66, 54, 70,
        92, 93, 120, 85,
    ];
    let points: Vec<(f64, f64)> =
        SPEED.iter().zip(DISTANCE).map(|(x, y)| (f64::from(*x), f64::from(y))).collect();
    let line = loess(&points, 22);
    for (speed, fit) in [(5, 7.797), (10, 21.869), (15, 39.95), (20, 56.461), (25, 95.300)] {
        let ours = line[speed - 4].1;
        assert!((ours - fit).abs() < fit * 0.04, "{speed}: {ours}, R {fit}");
    }
}

#[test]
fn the_smoother_follows_a_parabola_exactly() {
    let points: Vec<(f64, f64)> =
        (0..40).map(f64::from).map(|x: f64| (x, 3.0 - 2.0 * x + 0.5 * x * x)).collect();
    for (x, y) in loess(&points, 80) {
        assert!((y - (3.0 - 2.0 * x + 0.5 * x * x)).abs() < 1e-6, "{x} {y}");
    }
}

#[test]
fn the_smoother_weighs_near_points_more() {
    // For a single spike among zeros, the line rises around the spike and stays low far from it.
    let points: Vec<(f64, f64)> =
        (0..41).map(|i| (f64::from(i), if i == 20 { 100.0 } else { 0.0 })).collect();
    let line = loess(&points, 41);
    assert!(line[20].1 > 5.0 && line[20].1 < 30.0, "{:?}", line[20]);
    assert!(line[0].1.abs() < 5.0 && line[40].1.abs() < 5.0, "{:?} {:?}", line[0], line[40]);
    assert!((line[15].1 - line[25].1).abs() < 1e-9, "symmetric");
}

#[test]
fn few_points_and_one_place_are_left_as_they_are() {
    let few = [(0.0, 1.0), (1.0, 5.0)];
    assert_eq!(loess(&few, 80), few);
    assert_eq!(loess(&[], 80), []);
    let one_place = [(1.0, 1.0); 9];
    assert_eq!(loess(&one_place, 80), one_place);
}

proptest! {
    #[test]
    fn ticks_are_few_ascending_and_inside(low in -1e6_f64..1e6, span in 1e-3_f64..1e9, n in 1_usize..20) {
        let ticks = linear_ticks((low, low + span), n);
        prop_assert!(ticks.len() <= n + 1, "{:?}", ticks);
        prop_assert!(values(&ticks).windows(2).all(|pair| pair[0] < pair[1]));
        let slack = span * 1e-6;
        prop_assert!(values(&ticks).iter().all(|v| *v >= low - slack && *v <= low + span + slack));
    }

    #[test]
    fn the_smoother_is_finite_and_spans_the_points(
        mut xs in prop::collection::vec(0.0_f64..1e5, 6..80),
        ys in prop::collection::vec(0.0_f64..1e7, 80),
    ) {
        xs.sort_by(f64::total_cmp);
        let points: Vec<(f64, f64)> = xs.into_iter().zip(ys).collect();
        let line = loess(&points, 80);
        prop_assert!(line.iter().all(|(x, y)| x.is_finite() && y.is_finite()));
        prop_assert_eq!(line[0].0, points[0].0);
    }

    #[test]
    fn escaped_text_has_no_markup(text in any::<String>()) {
        let escaped = escape(&text);
        prop_assert!(!escaped.contains(['<', '>', '"', '\'']));
    }
}
