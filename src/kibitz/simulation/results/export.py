"""Results as pandas data frames and Parquet files."""

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from kibitz._files import check_target, write_atomic
from kibitz._validation import one_of

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]
    import xarray


def to_pandas(data: "xarray.Dataset", variable: str | None = None) -> "pandas.DataFrame":
    """Return a result as a pandas data frame in long form, with plain columns.

    Parameters
    ----------
    data
        A result of `simulate`, `sweep`, `race`, `league`, `compare`, `rehearse` or `trace`.
    variable
        The variable to return, such as "regret", with one row for each combination of its coordinates
        (policy, run and stage). By default, there is one row for each combination of policy, swept
        values and run, and one column for each variable that has one value per row, such as
        `final_regret`. `n_pulls` and `n_looks` have one column per arm ("n_pulls_0", "n_pulls_1",
        ...). A trace has one row per stage.
    """
    import xarray

    if not isinstance(data, xarray.Dataset):
        raise ValueError(f"data must be a result of kibitz, got {type(data)}")
    if variable is not None:
        one_of(variable, "variable", tuple(map(str, data.data_vars)))
        frame = data[[variable]].to_dataframe().reset_index()
    else:
        columns = data
        if not all("stage" in values.dims for values in data.data_vars.values()):  # no trace
            columns = data.drop_dims("stage", errors="ignore")
        for name, values in columns.data_vars.items():
            for dim in {"arm", "nth"}.intersection(values.dims):
                by_number = {
                    f"{name}_{number.item()}": values.sel({dim: number}, drop=True)
                    for number in values[dim]
                }
                columns = columns.drop_vars(str(name)).assign(by_number)
        frame = columns.drop_dims(["arm", "nth"], errors="ignore").to_dataframe().reset_index()
    frame.attrs = {name: value for name, value in data.attrs.items() if isinstance(value, str | int)}
    return frame


def to_parquet(
    data: "xarray.Dataset", file: str | os.PathLike[str], variable: str | None = None
) -> None:
    """Write a result to a Parquet file, with the columns of `to_pandas`.

    The attributes of the result are in the metadata of the file. Parquet needs the extra `parquet`.

    Parameters
    ----------
    data, variable
        As in `to_pandas`.
    file
        The file to write; an existing file is replaced.
    """
    if find_spec("pyarrow") is None:
        raise ValueError("pyarrow is not installed; run: pip install 'kibitz[parquet]'")
    target, frame = check_target(file, "file"), to_pandas(data, variable)
    write_atomic(target, lambda open_file: frame.to_parquet(open_file, index=False), "file")
