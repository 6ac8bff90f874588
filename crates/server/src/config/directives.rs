//! The macro that makes the fields of [`super::Values`] and the rows out of one table.

/// Takes groups of rows, each of the form
///
/// ```text
/// /// What the directive does.
/// field: Type = default => ("name", Kind, Change).then(Effect);
/// ```
///
/// and makes a field for each, with its type and default, and a [`super::row::Row`] that leads to
/// the field.
macro_rules! directives {
    ($($title:literal { $(
        $(#[doc = $meaning:literal])*
        $field:ident : $type:ty = $default:expr =>
            ($($basics:expr),* $(,)?) $(. $further:ident ($($argument:tt)*))* ;
    )* })*) => {
        /// The values of all directives.
        #[derive(Clone, Debug)]
        pub struct Values {
            $($(
                $(#[doc = $meaning])*
                #[doc = concat!("\n\nThe value of the directive `", stringify!($field), "`.")]
                pub $field: $type,
            )*)*
            /// The directives that were set, be it to their defaults.
            pub given: Given,
            /// The `user` lines that were read.
            pub users: Vec<CommandLine>,
            /// The `rename-command` lines that were read.
            pub renames: Vec<CommandLine>,
        }

        /// Which directives were set.
        #[derive(Clone, Debug, Default)]
        pub struct Given {
            $($(
                #[doc = concat!("Whether `", stringify!($field), "` was.")]
                pub $field: bool,
            )*)*
        }

        impl Default for Values {
            fn default() -> Values {
                Values {
                    $($($field: $default,)*)*
                    given: Given::default(),
                    users: Vec::new(),
                    renames: Vec::new(),
                }
            }
        }

        /// The rows in groups with titles.
        pub(super) static GROUPS: &[(&str, &[Row])] = &[$((
            $title,
            &[$(
                Row::new(
                    Field {
                        text: |values, kind| values.$field.text(kind),
                        put: |values, kind, text| put(&mut values.$field, kind, text),
                        given: |given| &mut given.$field,
                    },
                    concat!($($meaning,)* ""),
                    $($basics),*
                )
                $(. $further ($($argument)*))*,
            )*],
        ),)*];
    };
}
