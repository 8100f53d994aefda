//! Random commands against a naive model, with reopening in between.

use super::*;
use proptest::prelude::*;
use serde_json::{Map, json};
use std::collections::BTreeMap;
use tokio::runtime::Builder;

#[derive(Clone, Debug)]
enum Step {
    Create(u8, u32),
    Activate(u8),
    Update(u8, u32),
    Reset(u8),
    SetBucket(u8, u8, u32),
    ResetBucket(u8, u8),
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0u8..3;
    let n_val = 1u32..9;
    prop_oneof![
        2 => (name.clone(), n_val.clone()).prop_map(|(name, n_val)| Step::Create(name, n_val)),
        3 => name.clone().prop_map(Step::Activate),
        2 => (name.clone(), n_val.clone()).prop_map(|(name, n_val)| Step::Update(name, n_val)),
        1 => name.clone().prop_map(Step::Reset),
        4 => (0u8..4, name.clone(), n_val).prop_map(|(t, b, n_val)| Step::SetBucket(t, b, n_val)),
        2 => (0u8..4, name).prop_map(|(t, b)| Step::ResetBucket(t, b)),
        1 => Just(Step::Reopen),
    ]
}

/// Full JSON properties of active and inactive types, and of buckets. Type 3 is the default one.
#[derive(Default)]
struct Model {
    types: BTreeMap<u8, (bool, Map<String, Value>)>,
    buckets: BTreeMap<(u8, u8), Map<String, Value>>,
}

impl Model {
    fn effective(&self, bucket_type: u8, bucket: u8) -> Option<Map<String, Value>> {
        let below = match self.types.get(&bucket_type) {
            _ if bucket_type == 3 => BucketProps::untyped().to_json(),
            Some((true, props)) => props.clone(),
            _ => return None,
        };
        Some(self.buckets.get(&(bucket_type, bucket)).cloned().unwrap_or(below))
    }

    /// Applies a step. Returns true if it is allowed.
    fn run(&mut self, step: &Step) -> bool {
        let with_n_val = |mut props: Map<String, Value>, n_val: u32| {
            props.insert("n_val".to_owned(), json!(n_val));
            props
        };
        match *step {
            Step::Create(name, n_val) => {
                let active = self.types.get(&name).is_some_and(|(active, _)| *active);
                if !active {
                    let props = with_n_val(BucketProps::new_type().to_json(), n_val);
                    self.types.insert(name, (false, props));
                }
                !active
            }
            Step::Activate(name) => {
                self.types.get_mut(&name).map(|(active, _)| *active = true).is_some()
            }
            Step::Update(name, n_val) => match self.types.get_mut(&name) {
                Some((true, props)) => {
                    *props = with_n_val(props.clone(), n_val);
                    true
                }
                _ => false,
            },
            Step::Reset(name) => match self.types.get_mut(&name) {
                Some((true, props)) => {
                    *props = BucketProps::new_type().to_json();
                    true
                }
                _ => false,
            },
            Step::SetBucket(bucket_type, bucket, n_val) => {
                let effective = self.effective(bucket_type, bucket);
                if let Some(props) = effective.clone() {
                    self.buckets.insert((bucket_type, bucket), with_n_val(props, n_val));
                }
                effective.is_some()
            }
            Step::ResetBucket(bucket_type, bucket) => {
                let exists = self.effective(bucket_type, bucket).is_some();
                self.buckets.remove(&(bucket_type, bucket));
                exists
            }
            Step::Reopen => true,
        }
    }
}

fn type_name(number: u8) -> &'static [u8] {
    [&b"a"[..], b"b", b"c", b"default"][usize::from(number)]
}

async fn run(control: &ControlPlane, step: &Step) -> bool {
    let n_val = |n_val: u32| updates(json!({"n_val": n_val}));
    let bucket = |bucket_type, bucket: &'static [u8]| BucketRef {
        bucket_type: type_name(bucket_type),
        bucket,
    };
    let result = match *step {
        Step::Create(name, number) => {
            control.create_type(type_name(name), &n_val(number)).await.map(|_| ())
        }
        Step::Activate(name) => control.activate_type(type_name(name)).await,
        Step::Update(name, number) => control.update_type(type_name(name), &n_val(number)).await,
        Step::Reset(name) => control.reset_type(type_name(name)).await,
        Step::SetBucket(t, b, number) => {
            control.set_bucket_props(bucket(t, type_name(b)), &n_val(number)).await
        }
        Step::ResetBucket(t, b) => control.reset_bucket_props(bucket(t, type_name(b))).await,
        Step::Reopen => Ok(()),
    };
    result.is_ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn commands_do_what_the_model_does(steps in prop::collection::vec(step(), 1..30)) {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        let fixture = Fixture::new();
        let mut control = fixture.open();
        let mut model = Model::default();
        for step in steps {
            if matches!(step, Step::Reopen) {
                drop(control);
                control = fixture.open();
            }
            let allowed = runtime.block_on(run(&control, &step));
            prop_assert_eq!(allowed, model.run(&step), "{:?}", step);
            let state = control.read();
            for bucket_type in 0..4 {
                for bucket in 0..3 {
                    let name = BucketRef {
                        bucket_type: type_name(bucket_type),
                        bucket: type_name(bucket),
                    };
                    let shown = state.bucket_props(name).ok().map(|props| props.to_json());
                    prop_assert_eq!(shown, model.effective(bucket_type, bucket));
                }
            }
        }
    }
}
