use super::*;
use proptest::prelude::*;

fn encoded(json: &str) -> String {
    STANDARD.encode(json)
}

#[test]
fn a_filter_that_is_wrong_is_told_as_riak_does() {
    let cases = [
        (r#"{"key_range":5}"#, r#"{<<"key_range">>,5}"#),
        (r#"{"key_range":{"start":"a"}}"#, r#"{<<"key_range">>,{<<"a">>,undefined}}"#),
        (r#"{"date_range":{"start":-1,"end":5}}"#, r#"{<<"date_range">>,{-1,5}}"#),
        (r#"{"hash_iv":"x"}"#, r#"{<<"hash_iv">>,<<"x">>}"#),
        (r#"{"segment_filter":1}"#, r#"{<<"segment_filter">>,1}"#),
        (r#"{"segment_filter":{"segments":5,"tree_size":"small"}}"#, "5"),
        (r#"{"segment_filter":{"segments":[5]}}"#, "undefined"),
        (r#"{"segment_filter":{"segments":[5],"tree_size":"giant"}}"#, r#""giant""#),
        (r#"{"change_method":"none"}"#, r#"{<<"change_method">>,<<"none">>}"#),
        (r#"{"change_method":{"job_id":0}}"#, r#"{<<"change_method">>,0}"#),
        (r#"{"change_method":{}}"#, r#"{<<"change_method">>,undefined}"#),
        ("[1]", "[1]"),
        ("5", "5"),
    ];
    for (json, part) in cases {
        let fault = RangeFilter::parse(&encoded(json)).expect_err(json);
        assert_eq!(fault.to_string(), format!("Invalid range filter {part}"), "{json}");
    }
    let fault = RangeFilter::parse("!!").expect_err("no Base64");
    assert_eq!(fault.to_string(), r#"Invalid range filter "!!""#);
}

#[test]
fn filters_of_cached_trees_are_lists_or_segments_with_dates() {
    assert_eq!(CachedFilter::parse_branches(&encoded("[3,4]")), Ok(vec![3, 4]));
    let with_dates = concat!(
        r#"{"segment_filter":{"segments":[9],"tree_size":"large"},"#,
        r#""date_range":{"start":0,"end":1}}"#
    );
    let segments = SegmentFilter { segments: vec![9], tree_size: TreeSize::Large };
    let parsed = CachedFilter::parse_segments(&encoded(with_dates));
    assert_eq!(parsed, Ok(CachedFilter::Segments(segments, Some((0, 1)))));
    let faults = [
        (CachedFilter::parse_branches("zz"), r#"Invalid branch | segment filter "zz""#),
        (CachedFilter::parse_branches(&encoded("5")), "Invalid branch | segment filter 5"),
        (CachedFilter::parse_branches(&encoded("{}")), "Invalid filter for branch"),
    ];
    for (parsed, text) in faults {
        assert_eq!(parsed.map_err(|fault| fault.to_string()), Err(text.to_owned()));
    }
}

fn filters() -> impl Strategy<Value = RangeFilter> {
    let segments =
        (prop::collection::vec(any::<u32>(), 0..5), prop::sample::select(&TreeSize::ALL));
    let segments = segments.prop_map(|(segments, tree_size)| SegmentFilter { segments, tree_size });
    let method = prop_oneof![
        Just(ChangeMethod::Count),
        Just(ChangeMethod::Local),
        (1u64..1_000).prop_map(ChangeMethod::Job),
    ];
    let keys = ("[a-zü]{0,5}", "[a-z\"]{0,5}").prop_map(|(a, b)| (a.into(), b.into()));
    (
        prop::option::of(keys),
        prop::option::of(any::<(u64, u64)>()),
        prop::option::of(segments),
        prop::option::of(any::<u32>()),
        prop::option::of(method),
    )
        .prop_map(|(keys, modified_secs, segments, salt, change_method)| RangeFilter {
            keys,
            modified_secs,
            segments,
            salt,
            change_method,
        })
}

proptest! {
    #[test]
    fn filters_come_back(filter in filters()) {
        let parsed = filter.encode().map_or(Ok(RangeFilter::default()), |text| RangeFilter::parse(&text));
        prop_assert_eq!(parsed, Ok(filter.clone()));
        if let Some(segments) = filter.segments {
            for cached in [
                CachedFilter::Numbers(segments.segments.clone()),
                CachedFilter::Segments(segments, filter.modified_secs),
            ] {
                prop_assert_eq!(CachedFilter::parse_segments(&cached.encode()), Ok(cached));
            }
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,40}") {
        let _ = (RangeFilter::parse(&text), RangeFilter::parse(&encoded(&text)));
        let _ = (CachedFilter::parse_segments(&text), CachedFilter::parse_branches(&encoded(&text)));
    }
}
